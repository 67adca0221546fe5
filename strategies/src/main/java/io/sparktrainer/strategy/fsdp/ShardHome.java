package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;

/**
 * Where a rank's shards of the parameters and of their gradients live, and with them the
 * optimizer's state.
 */
enum ShardHome {
  /** Where the model computes: gathers read the shards, and reductions write them, in place. */
  DEVICE,
  /**
   * In the host's memory, pinned where the device is a GPU. Each gather starts with a copy of this
   * rank's piece to the device, and each reduction ends with one of the reduced piece back.
   */
  HOST;

  /** Where {@code options} put the shards of a model on {@code device}. */
  static ShardHome of(FsdpOptions options, Device device) {
    return options.cpuOffload() && device.isCuda() ? HOST : DEVICE;
  }

  /** Zeros [numel] in this home and the current scope, for a model that is on {@code device}. */
  Tensor zeros(DType dtype, Device device, long numel) {
    return this == HOST && device.isCuda()
        ? Tensors.zeros(dtype, Device.CPU, numel).pin_memory()
        : Tensors.zeros(dtype, device, numel);
  }
}
