package io.sparktrainer.strategy.ddp;

import io.sparktrainer.torch.NativeScope;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;

/** Runs something when a parameter's gradient has been computed. */
final class ArrivalProbe implements AutoCloseable {
  private final Tensor parameter;
  private final VoidTensorHook hook;
  private final int id;

  ArrivalProbe(Tensor parameter, Runnable onArrival) {
    this.parameter = parameter;
    this.hook =
        NativeScope.keep(
            new VoidTensorHook() {
              @Override
              public void call(TensorBase gradient) {
                onArrival.run();
              }
            });
    this.id = parameter.register_hook(hook);
  }

  @Override
  public void close() {
    parameter.remove_hook(id);
    hook.close();
  }
}
