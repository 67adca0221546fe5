package io.sparktrainer.torch;

/**
 * A CUDA device of this machine, as the driver described it when it was asked.
 *
 * @param index its number in this process, from 0, after {@code CUDA_VISIBLE_DEVICES}
 * @param name such as {@code NVIDIA H200}
 * @param major compute capability before the point
 * @param minor compute capability behind the point
 * @param uuid {@code GPU-} and 36 characters: the same in every process, whatever the index there
 * @param pciId {@code domain:bus:device.function}
 * @param totalBytes memory of the device
 * @param freeBytes memory that no process held at that moment
 * @param utilisationPercent part of the last second or so in which it computed, 0 to 100, or {@link
 *     #UNKNOWN}
 */
public record CudaDevice(
    int index,
    String name,
    int major,
    int minor,
    String uuid,
    String pciId,
    long totalBytes,
    long freeBytes,
    int utilisationPercent) {
  /** What {@link #utilisationPercent()} is where NVIDIA's management library does not tell. */
  public static final int UNKNOWN = -1;

  private static final String STAND_IN = "Stand-in GPU";

  /** Whether it is none, but what tests put in its place: its memory is the host's. */
  public boolean isStandIn() {
    return name.startsWith(STAND_IN);
  }

  /** Where its tensors live: the CPU for a stand-in. */
  public Device device() {
    return isStandIn() ? Device.CPU : Device.cuda(index);
  }

  /** {@code GPU 0 (NVIDIA H200, 0000:19:00.0)}: for messages. */
  public String title() {
    return "GPU %d (%s, %s)".formatted(index, name, pciId);
  }
}
