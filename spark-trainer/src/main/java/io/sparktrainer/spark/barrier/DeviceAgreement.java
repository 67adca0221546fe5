package io.sparktrainer.spark.barrier;

import io.sparktrainer.spark.resource.DeviceRequest;
import io.sparktrainer.spark.resource.Gpu;
import io.sparktrainer.torch.Device;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * What all ranks compute on. Each rank decides it from the facts of all, and so all decide alike.
 *
 * @param type the processor or GPUs
 * @param lack why it is the processor although some ranks have GPUs; else null
 */
record DeviceAgreement(Device.Type type, @Nullable String lack) {
  /**
   * @throws IllegalStateException if a rank that has to have a GPU has none, or two ranks have the
   *     same one
   */
  static DeviceAgreement of(DeviceRequest request, List<RankFacts> ranks) {
    if (!request.wantsGpus()) {
      return new DeviceAgreement(Device.Type.CPU, null);
    }
    List<RankFacts> without = ranks.stream().filter(rank -> rank.gpus().gpus().isEmpty()).toList();
    if (without.isEmpty()) {
      refuseSharing(ranks);
      return new DeviceAgreement(Device.Type.CUDA, null);
    }
    if (request.kind() == DeviceRequest.Kind.CUDA) {
      throw new IllegalStateException(
          "Cannot start training on GPUs: expected one that it can use for each of %d ranks, got none for %d of them: %s. Mend that, keep executors off that host, or set device.type to cpu or auto."
              .formatted(ranks.size(), without.size(), lack(without.get(0))));
    }
    boolean onlySome = without.size() < ranks.size();
    return new DeviceAgreement(Device.Type.CPU, onlySome ? lack(without.get(0)) : null);
  }

  /** What a rank told, with the device that it computes on. */
  RankFacts applyTo(RankFacts rank) {
    return rank.on(
        type == Device.Type.CPU
            ? Device.CPU.toString()
            : rank.gpus().gpus().stream().map(Gpu::name).collect(Collectors.joining(", ")));
  }

  private static String lack(RankFacts rank) {
    String problem = String.valueOf(rank.gpus().problem());
    return "rank %d on host %s has none: %s"
        .formatted(
            rank.rank(),
            rank.host(),
            problem.endsWith(".") ? problem.substring(0, problem.length() - 1) : problem);
  }

  private static void refuseSharing(List<RankFacts> ranks) {
    Map<String, RankFacts> owners = new HashMap<>();
    for (RankFacts rank : ranks) {
      for (Gpu gpu : rank.gpus().gpus()) {
        RankFacts other = owners.putIfAbsent(gpu.uuid(), rank);
        if (other != null) {
          throw new IllegalStateException(
              "Cannot start training on GPUs: expected one of its own for each rank, got ranks %d and %d on %s of host %s. Let Spark hand out whole GPUs: spark.task.resource.gpu.amount=1 and a discovery script that lists each GPU of a host to one worker only."
                  .formatted(other.rank(), rank.rank(), gpu, rank.host()));
        }
      }
    }
  }
}
