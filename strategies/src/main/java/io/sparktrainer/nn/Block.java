package io.sparktrainer.nn;

import io.sparktrainer.torch.CudaTorch;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiConsumer;
import org.bytedeco.pytorch.Tensor;

/**
 * A part of a model, from one layer to the whole of it: named parameters, named buffers, named
 * children, and a forward computation.
 *
 * <p>A subclass registers what it owns in its constructor ({@link #parameter}, {@link #buffer},
 * {@link #child}) and computes in {@link #forward}; everybody runs it through {@link #call}, which
 * is where strategies act before, after or around any block. Names follow PyTorch's state dict:
 * {@code conv1.weight} is the parameter {@code weight} of the child {@code conv1}.
 *
 * <p>The tensors registered here are the block's until {@link #close()}. A block is used by one
 * thread at a time.
 */
public abstract class Block implements AutoCloseable {
  private final Map<String, Tensor> parameters = new LinkedHashMap<>();
  private final Map<String, Tensor> buffers = new LinkedHashMap<>();
  private final Map<String, Block> children = new LinkedHashMap<>();
  private final List<BlockInterceptor> interceptors = new ArrayList<>();
  private boolean training = true;

  /** Computes the block's output; call {@link #call} to run it. */
  protected abstract Tensor forward(Tensor... inputs);

  /**
   * Runs the block: the interceptors, the one added last outermost, around {@link #forward}.
   *
   * <p>Tensors made inside are freed on return unless the graph needs them; the output belongs to
   * the caller's scope.
   */
  public final Tensor call(Tensor... inputs) {
    try (var scope = NativeScope.open()) {
      return scope.pass(run(interceptors.size() - 1, inputs));
    }
  }

  private Tensor run(int index, Tensor... inputs) {
    if (index < 0) {
      return forward(inputs);
    }
    return interceptors.get(index).intercept(this, inputs, next -> run(index - 1, next));
  }

  /** Lets {@code interceptor} act around every later {@link #call}. */
  public final void intercept(BlockInterceptor interceptor) {
    interceptors.add(interceptor);
  }

  /** Takes {@code interceptor} away again. */
  public final void removeInterceptor(BlockInterceptor interceptor) {
    interceptors.remove(interceptor);
  }

  /**
   * Registers a tensor to be trained; floating-point tensors get {@code requires_grad}.
   *
   * @return the same tensor, owned by this block from now on
   * @throws IllegalArgumentException if the name is taken or contains a dot
   */
  protected final Tensor parameter(String name, Tensor value) {
    requireFree(name);
    return registerParameter(name, value);
  }

  /** The same under a name that may have dots, for a block whose parts are no blocks. */
  final Tensor registerParameter(String name, Tensor value) {
    NativeScope.keep(value).set_requires_grad(DType.of(value).isFloatingPoint());
    parameters.put(name, value);
    return value;
  }

  /**
   * Registers a tensor that is part of the model's state but not trained, such as a running mean.
   *
   * @return the same tensor, owned by this block from now on
   * @throws IllegalArgumentException if the name is taken or contains a dot
   */
  protected final Tensor buffer(String name, Tensor value) {
    requireFree(name);
    return registerBuffer(name, value);
  }

  /** The same under a name that may have dots. */
  final Tensor registerBuffer(String name, Tensor value) {
    buffers.put(name, NativeScope.keep(value));
    return value;
  }

  /**
   * Registers a parameter of another block as this block's too (tied weights). It is trained, saved
   * and counted once, under the name found first.
   */
  protected final Tensor tie(String name, Tensor parameter) {
    requireFree(name);
    parameters.put(name, NativeScope.keep(parameter));
    return parameter;
  }

  /**
   * Registers a part of this block.
   *
   * @throws IllegalArgumentException if the name is taken or contains a dot
   */
  protected final <B extends Block> B child(String name, B block) {
    requireFree(name);
    children.put(name, block);
    return block;
  }

  private void requireFree(String name) {
    if (name.isEmpty() || name.contains(".")) {
      throw new IllegalArgumentException(
          "Cannot register \"%s\" in %s: expected a name without dots. Nest blocks instead."
              .formatted(name, this));
    }
    if (parameters.containsKey(name) || buffers.containsKey(name) || children.containsKey(name)) {
      throw new IllegalArgumentException(
          "Cannot register \"%s\" in %s: the name is taken.".formatted(name, this));
    }
  }

  /**
   * Parameters of this block and all below it, by dotted name, in registration order: a block's own
   * before its children's. A tied parameter appears once.
   */
  public final Map<String, Tensor> parameters() {
    Map<String, Tensor> found = new LinkedHashMap<>();
    Set<Tensor> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    visit(
        "",
        (prefix, block) ->
            block.parameters.forEach(
                (name, tensor) -> {
                  if (seen.add(tensor)) {
                    found.put(prefix + name, tensor);
                  }
                }));
    return found;
  }

  /** Parameters registered in this very block, by their short names, tied ones included. */
  public final Map<String, Tensor> ownParameters() {
    return Collections.unmodifiableMap(parameters);
  }

  /** Buffers of this block and all below it, by dotted name, in registration order. */
  public final Map<String, Tensor> buffers() {
    Map<String, Tensor> found = new LinkedHashMap<>();
    visit(
        "",
        (prefix, block) ->
            block.buffers.forEach((name, tensor) -> found.put(prefix + name, tensor)));
    return found;
  }

  /** Parameters and buffers by dotted name, as PyTorch's state dict lists them. */
  public final Map<String, Tensor> state() {
    Map<String, Tensor> found = new LinkedHashMap<>();
    Set<Tensor> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    visit(
        "",
        (prefix, block) -> {
          block.parameters.forEach(
              (name, tensor) -> {
                if (seen.add(tensor)) {
                  found.put(prefix + name, tensor);
                }
              });
          block.buffers.forEach((name, tensor) -> found.put(prefix + name, tensor));
        });
    return found;
  }

  /** This block and all below it by dotted name; this block's own name is empty. */
  public final Map<String, Block> blocks() {
    Map<String, Block> found = new LinkedHashMap<>();
    visit("", (prefix, block) -> found.put(prefix.replaceFirst("\\.$", ""), block));
    return found;
  }

  private void visit(String prefix, BiConsumer<String, Block> visitor) {
    visitor.accept(prefix, this);
    children.forEach((name, child) -> child.visit(prefix + name + ".", visitor));
  }

  /**
   * Moves all parameters and buffers to {@code device}; does nothing where they already are there.
   *
   * @throws io.sparktrainer.torch.NativeLibraryException if the device cannot be used
   */
  public final void moveTo(Device device) {
    move(state().values(), device);
  }

  /** Moves all buffers to {@code device}, and leaves the parameters where they are. */
  public final void moveBuffersTo(Device device) {
    move(buffers().values(), device);
  }

  private static void move(Collection<Tensor> tensors, Device device) {
    if (device.isCuda()) {
      CudaTorch.load();
    }
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      for (Tensor tensor : tensors) {
        if (!Device.of(tensor).equals(device)) {
          tensor.set_data(tensor.detach().to(device.toNative(), tensor.scalar_type()));
        }
      }
    }
  }

  /** Switches this block and all below it to training (dropout on, batch statistics). */
  public final void train() {
    visit("", (prefix, block) -> block.training = true);
  }

  /** Switches this block and all below it to evaluation (dropout off, running statistics). */
  public final void eval() {
    visit("", (prefix, block) -> block.training = false);
  }

  /** Whether the block is in training mode, the mode it starts in. */
  public final boolean training() {
    return training;
  }

  /** Frees every parameter and buffer of this block and all below it. */
  @Override
  public void close() {
    visit(
        "",
        (prefix, block) -> {
          block.parameters.values().forEach(Tensor::close);
          block.buffers.values().forEach(Tensor::close);
        });
  }

  @Override
  public String toString() {
    return getClass().getSimpleName();
  }
}
