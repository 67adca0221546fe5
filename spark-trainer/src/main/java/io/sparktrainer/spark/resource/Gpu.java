package io.sparktrainer.spark.resource;

import io.sparktrainer.torch.CudaDevice;
import io.sparktrainer.torch.Device;

/**
 * A GPU as one process sees it.
 *
 * @param index CUDA's number of the device in this process, from 0; after {@code
 *     CUDA_VISIBLE_DEVICES}, which hides devices and changes their order
 * @param title for messages: number, name and place in the machine
 * @param uuid {@code GPU-...}, the same in every process of every host
 * @param pciId its place in the machine, such as {@code 0000:3B:00.0}
 * @param tensors where its tensors live, as libtorch names it
 * @param totalBytes its memory
 * @param freeBytes memory that nobody used when it was looked at
 */
public record Gpu(
    int index,
    String title,
    String uuid,
    String pciId,
    String tensors,
    long totalBytes,
    long freeBytes) {
  static Gpu of(CudaDevice device) {
    return new Gpu(
        device.index(),
        device.title(),
        device.uuid(),
        device.pciId(),
        device.device().toString(),
        device.totalBytes(),
        device.freeBytes());
  }

  /** As PyTorch calls it. */
  public String name() {
    return Device.cuda(index).toString();
  }

  /** Where its tensors live. */
  public Device device() {
    return tensors.equals(Device.CPU.toString()) ? Device.CPU : Device.cuda(index);
  }

  @Override
  public String toString() {
    return title + " " + uuid;
  }
}
