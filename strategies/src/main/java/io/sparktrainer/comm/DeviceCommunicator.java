package io.sparktrainer.comm;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.Device;
import java.util.Map;
import java.util.TreeMap;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The same ranks connected twice: tensors in host memory go through one group, tensors on a device
 * through the other. Ranks that compute on GPUs use NCCL for what is there, and Gloo for the few
 * numbers that are made on the host (counts, fingerprints, metrics), which then cross no device.
 */
public final class DeviceCommunicator implements Communicator {
  private final Communicator host;
  private final Communicator device;

  /**
   * Takes over both groups.
   *
   * @throws IllegalArgumentException if this rank has another place in one than in the other
   */
  public DeviceCommunicator(Communicator host, Communicator device) {
    if (host.rank() != device.rank() || host.worldSize() != device.worldSize()) {
      throw new IllegalArgumentException(
          "Cannot join two groups to one: expected the same rank and world size in both, got rank %d of %d on the host and rank %d of %d on the device."
              .formatted(host.rank(), host.worldSize(), device.rank(), device.worldSize()));
    }
    this.host = host;
    this.device = device;
  }

  /** A group of one rank that computes on {@code device}. */
  public static Communicator alone(Device device) {
    return device.isCuda()
        ? new DeviceCommunicator(new LocalCommunicator(), new LocalCommunicator(device))
        : new LocalCommunicator();
  }

  private Communicator groupOf(Tensor tensor) {
    // What is not a tensor at all is refused by either group.
    return tensor.isNull() || !tensor.defined() || tensor.is_cpu() ? host() : device;
  }

  /** What goes over the host mostly was read from the device. */
  private Communicator host() {
    device.requireIntact();
    return host;
  }

  @Override
  public int rank() {
    return host.rank();
  }

  @Override
  public int worldSize() {
    return host.worldSize();
  }

  @Override
  public CollectiveHandle allReduce(Tensor tensor, ReduceOp op) {
    return groupOf(tensor).allReduce(tensor, op);
  }

  @Override
  public CollectiveHandle reduceScatter(Tensor output, Tensor input, ReduceOp op) {
    return groupOf(input).reduceScatter(output, input, op);
  }

  @Override
  public CollectiveHandle allGather(Tensor output, Tensor input) {
    return groupOf(input).allGather(output, input);
  }

  @Override
  public CollectiveHandle broadcast(Tensor tensor, int root) {
    return groupOf(tensor).broadcast(tensor, root);
  }

  @Override
  public CollectiveHandle barrier() {
    return host().barrier();
  }

  @Override
  public void grouped(Runnable calls) {
    device.grouped(calls);
  }

  @Override
  public Communicator subGroup(String name, int... ranks) {
    return new DeviceCommunicator(host.subGroup(name, ranks), device.subGroup(name, ranks));
  }

  @Override
  public void requireIntact() {
    device.requireIntact();
    host.requireIntact();
  }

  @Override
  public @Nullable CudaStream newStream() {
    return device.newStream();
  }

  @Override
  public CollectiveCounts counts() {
    CollectiveCounts onHost = host.counts();
    CollectiveCounts onDevice = device.counts();
    return new CollectiveCounts(
        sum(onHost.calls(), onDevice.calls()), sum(onHost.bytes(), onDevice.bytes()));
  }

  private static Map<Kind, Long> sum(Map<Kind, Long> some, Map<Kind, Long> others) {
    Map<Kind, Long> sums = new TreeMap<>(some);
    others.forEach((kind, value) -> sums.merge(kind, value, Long::sum));
    return sums;
  }

  @Override
  public void close() {
    try (host) {
      device.close();
    }
  }

  @Override
  public void abort(String reason) {
    try {
      device.abort(reason);
    } finally {
      host.abort(reason);
    }
  }
}
