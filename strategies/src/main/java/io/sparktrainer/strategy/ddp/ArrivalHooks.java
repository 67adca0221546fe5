package io.sparktrainer.strategy.ddp;

import io.sparktrainer.nn.Recomputation;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;
import org.jspecify.annotations.Nullable;

/**
 * Tells when a parameter's gradient has been accumulated.
 *
 * <p>libtorch calls a leaf's hook just before it adds the gradient to {@code grad()}, so at that
 * moment the gradient of the parameter before is complete: each hook reports its predecessor, and
 * {@link #flush()} reports the last one after backward. Hooks run on the thread that runs backward;
 * an exception inside one cannot cross libtorch whole, so it is kept and thrown by {@link
 * #flush()}.
 */
final class ArrivalHooks implements AutoCloseable {
  private static final int NONE = -1;

  /** Told of gradients, on the thread that runs backward. */
  interface Listener {
    /**
     * The whole gradient of this backward pass for parameter {@code index} is about to be added to
     * {@code grad()}. It is only lent: a reference kept would cost libtorch a copy.
     */
    void arriving(int index, TensorBase gradient);

    /** The gradient of parameter {@code index} has been added to {@code grad()}. */
    void accumulated(int index);
  }

  private final List<Tensor> parameters;
  private final Listener listener;
  // A hook that Java does not hold would be collected while libtorch still calls it.
  private final List<Hook> hooks = new ArrayList<>();
  private boolean armed;
  private int previous = NONE;
  private @Nullable RuntimeException failure;

  /**
   * Registers the hooks.
   *
   * @param listener told of every gradient
   */
  ArrivalHooks(List<Tensor> parameters, Listener listener) {
    this.parameters = parameters;
    this.listener = listener;
    for (int i = 0; i < parameters.size(); i++) {
      Hook hook = NativeScope.keep(new Hook(i));
      hook.id = parameters.get(i).register_hook(hook);
      hooks.add(hook);
    }
  }

  /** Reports arrivals until the next {@link #flush()}. */
  void arm() {
    armed = true;
    previous = NONE;
    failure = null;
  }

  /**
   * Reports the last arrival and stops reporting.
   *
   * @throws RuntimeException what an earlier report threw
   */
  void flush() {
    report(NONE);
    armed = false;
    if (failure != null) {
      throw failure;
    }
  }

  /** Stops reporting after a failed backward and returns what a report threw, if anything did. */
  @Nullable RuntimeException disarm() {
    armed = false;
    return failure;
  }

  private void report(int next) {
    int complete = previous;
    previous = next;
    if (complete != NONE) {
      tell(() -> listener.accumulated(complete));
    }
  }

  private void tell(Runnable message) {
    if (!armed || failure != null) {
      return;
    }
    try {
      message.run();
    } catch (RuntimeException e) {
      failure = e;
    }
  }

  @Override
  public void close() {
    for (int i = 0; i < hooks.size(); i++) {
      parameters.get(i).remove_hook(hooks.get(i).id);
      hooks.get(i).close();
    }
    hooks.clear();
  }

  private final class Hook extends VoidTensorHook {
    private final int index;
    private int id;

    private Hook(int index) {
      this.index = index;
    }

    @Override
    public void call(TensorBase gradient) {
      try {
        if (!Recomputation.isActive()) {
          report(index);
          tell(() -> listener.arriving(index, gradient));
        }
      } finally {
        // A hold on the gradient would make libtorch copy it instead of taking it over, and would
        // last until the scope around backward closes.
        gradient.close();
      }
    }
  }
}
