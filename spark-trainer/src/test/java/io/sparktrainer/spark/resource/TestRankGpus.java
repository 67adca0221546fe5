package io.sparktrainer.spark.resource;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.spark.resource.DeviceRequest.Kind;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class TestRankGpus {
  private static final DeviceRequest ONE = new DeviceRequest(Kind.CUDA, null);

  @Test
  void withoutSparksHelpARankTakesTheGpuOfItsPlaceOnTheHost() {
    assertThat(choose(ONE, listing(2), List.of(), null, 0)).containsExactly(0);
    assertThat(choose(ONE, listing(2), List.of(), null, 1)).containsExactly(1);
    assertThat(RankGpus.choose(ONE, listing(2), List.of(), null, 2).problem())
        .isEqualTo("2 ranks before it run on its host, which has 2 GPUs");
  }

  @Test
  void sparksNumbersCountByPlaceOnTheBusAndCudasDoNot() {
    GpuListing fastestFirst =
        GpuListing.of(
            List.of(
                gpu(0, 'c', "00000000:5E:00.0"),
                gpu(1, 'a', "0000:1a:00.0"),
                gpu(2, 'b', "0000:3B:00.0")));

    assertThat(choose(ONE, fastestFirst, List.of("0"), null, 7)).containsExactly(1);
    assertThat(choose(ONE, fastestFirst, List.of("2"), null, 7)).containsExactly(0);
  }

  @Test
  void sparksNumbersAreLookedUpInCudaVisibleDevices() {
    assertThat(choose(ONE, listing(2), List.of("5"), "3, 5", 0)).containsExactly(1);
    assertThat(RankGpus.choose(ONE, listing(2), List.of("0"), "3,5", 0).problem())
        .startsWith("Spark gave the task GPU 0, but its process sees only [GPU 0 GPU-")
        .endsWith(
            "] with CUDA_VISIBLE_DEVICES = 3,5. Unset CUDA_VISIBLE_DEVICES for executors, or let the discovery script print what it holds, as bin/discover-gpus does");
    // CUDA drops what follows an entry that it does not know.
    assertThat(RankGpus.choose(ONE, listing(1), List.of("5"), "3,9,5", 0).problem())
        .startsWith("Spark gave the task GPU 5");
  }

  @Test
  void addressesMayBeUuidsOrTheirFirstCharactersOrPlacesOnTheBus() {
    assertThat(choose(ONE, listing(3), List.of(uuid('b')), null, 0)).containsExactly(1);
    assertThat(choose(ONE, listing(3), List.of("GPU-cccccccc"), "GPU-cccccccc", 0))
        .containsExactly(2);
    assertThat(choose(ONE, listing(3), List.of("00000000:11:00.0"), null, 0)).containsExactly(1);
    assertThat(RankGpus.choose(ONE, listing(3), List.of("GPU-"), null, 0).gpus()).isEmpty();
    assertThat(RankGpus.choose(ONE, listing(3), List.of(uuid('f')), null, 0).problem())
        .contains("with CUDA_VISIBLE_DEVICES not set");
    // A number says nothing where CUDA_VISIBLE_DEVICES holds UUIDs.
    assertThat(RankGpus.choose(ONE, listing(1), List.of("0"), uuid('a'), 0).gpus()).isEmpty();
  }

  @Test
  void idsCountWhatSparkGaveTheTaskElseWhatTheProcessSees() {
    DeviceRequest ids = new DeviceRequest(Kind.CUDA, List.of(1, 0));

    assertThat(choose(ids, listing(4), List.of("3", "2"), null, 0)).containsExactly(2, 3);
    assertThat(choose(ids, listing(4), List.of(), null, 5)).containsExactly(1, 0);
    assertThat(RankGpus.choose(ids, listing(4), List.of("3"), null, 0).problem())
        .isEqualTo(
            "the configuration asks for GPU 1 of the rank, counted from 0, but Spark gave it 1");
    assertThat(RankGpus.choose(ids, listing(1), List.of(), null, 0).problem())
        .isEqualTo(
            "the configuration asks for GPU 1 of the rank, counted from 0, but its process sees 1");
  }

  @Test
  void whereThereAreNoGpusTheReasonIsKept() {
    RankGpus none = RankGpus.choose(ONE, GpuListing.none("no driver"), List.of("0"), null, 0);

    assertThat(none).isEqualTo(RankGpus.none("no driver"));
  }

  private static List<Integer> choose(
      DeviceRequest request,
      GpuListing listing,
      List<String> addresses,
      @Nullable String visible,
      int place) {
    RankGpus chosen = RankGpus.choose(request, listing, addresses, visible, place);
    assertThat(chosen.problem()).isNull();
    return chosen.gpus().stream().map(Gpu::index).toList();
  }

  private static GpuListing listing(int count) {
    return GpuListing.of(
        RankGpus.first(count).stream()
            .map(i -> gpu(i, (char) ('a' + i), "0000:1" + i + ":00.0"))
            .toList());
  }

  private static Gpu gpu(int index, char mark, String pciId) {
    return new Gpu(index, "GPU " + index, uuid(mark), pciId, "cuda:" + index, 100, 50);
  }

  private static String uuid(char mark) {
    return "GPU-" + "00000000-0000-0000-0000-000000000000".replace('0', mark);
  }
}
