package io.sparktrainer.spark.resource;

import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * The GPUs that one rank would compute on, or why it has none.
 *
 * @param gpus in the order in which the strategy uses them
 * @param problem why there are none, as a sentence; null where there are
 */
public record RankGpus(List<Gpu> gpus, @Nullable String problem) {
  public RankGpus {
    gpus = List.copyOf(gpus);
  }

  /** None, for this reason. */
  public static RankGpus none(String problem) {
    return new RankGpus(List.of(), problem);
  }

  /**
   * Chooses.
   *
   * @param listing what the rank's process sees
   * @param addresses what Spark gave the rank's task; empty where Spark manages no GPUs
   * @param visible the process's {@code CUDA_VISIBLE_DEVICES}, or null
   * @param place how many ranks before this one run on its host
   */
  public static RankGpus choose(
      DeviceRequest request,
      GpuListing listing,
      List<String> addresses,
      @Nullable String visible,
      int place) {
    if (listing.problem() != null) {
      return none(listing.problem());
    }
    List<Gpu> own = listing.gpus();
    if (!addresses.isEmpty()) {
      try {
        GpuAddresses known = new GpuAddresses(listing.gpus(), visible);
        own = addresses.stream().map(known::find).toList();
      } catch (IllegalArgumentException e) {
        return none(String.valueOf(e.getMessage()));
      }
    }
    List<Integer> ids = request.ids();
    if (ids == null) {
      return byPlace(own, addresses.isEmpty() ? place : 0);
    }
    for (int id : ids) {
      if (id >= own.size()) {
        return none(
            "the configuration asks for GPU %d of the rank, counted from 0, but %s %d"
                .formatted(
                    id, addresses.isEmpty() ? "its process sees" : "Spark gave it", own.size()));
      }
    }
    List<Gpu> mine = own;
    return new RankGpus(ids.stream().map(mine::get).toList(), null);
  }

  private static RankGpus byPlace(List<Gpu> own, int place) {
    return place < own.size()
        ? new RankGpus(List.of(own.get(place)), null)
        : none(
            "%d ranks before it run on its host, which has %d %s"
                .formatted(place, own.size(), own.size() == 1 ? "GPU" : "GPUs"));
  }

  /** The first {@code count} of what a rank has. */
  public static List<Integer> first(int count) {
    return IntStream.range(0, count).boxed().toList();
  }
}
