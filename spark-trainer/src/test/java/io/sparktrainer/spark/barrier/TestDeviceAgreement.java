package io.sparktrainer.spark.barrier;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.spark.resource.DeviceRequest;
import io.sparktrainer.spark.resource.DeviceRequest.Kind;
import io.sparktrainer.spark.resource.Gpu;
import io.sparktrainer.spark.resource.RankGpus;
import io.sparktrainer.torch.Device;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestDeviceAgreement {
  private static final DeviceRequest AUTO = new DeviceRequest(Kind.AUTO, null);
  private static final DeviceRequest CUDA = new DeviceRequest(Kind.CUDA, null);

  @Test
  void ranksThatAllHaveGpusComputeOnThem() {
    List<RankFacts> ranks = List.of(rank(0, "a", gpu(0, "GPU-1")), rank(1, "a", gpu(1, "GPU-2")));

    for (DeviceRequest request : List.of(AUTO, CUDA)) {
      DeviceAgreement agreement = DeviceAgreement.of(request, ranks);
      assertThat(agreement).isEqualTo(new DeviceAgreement(Device.Type.CUDA, null));
      assertThat(agreement.applyTo(ranks.get(1)).device()).isEqualTo("cuda:1");
    }
    assertThat(DeviceAgreement.of(DeviceRequest.cpu(), ranks).type()).isEqualTo(Device.Type.CPU);
  }

  @Test
  void twoRanksOnOneGpuAreRefusedByItsUuid() {
    List<RankFacts> ranks = List.of(rank(0, "a", gpu(0, "GPU-1")), rank(1, "a", gpu(3, "GPU-1")));

    assertThatThrownBy(() -> DeviceAgreement.of(AUTO, ranks))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            "Cannot start training on GPUs: expected one of its own for each rank, got ranks 0 and 1 on GPU 3 (card) GPU-1 of host a. Let Spark hand out whole GPUs: spark.task.resource.gpu.amount=1 and a discovery script that lists each GPU of a host to one worker only.");
  }

  @Test
  void whereSomeHaveNoneAutoTakesTheProcessorForAllAndCudaIsRefused() {
    List<RankFacts> ranks = List.of(rank(0, "a", gpu(0, "GPU-1")), rank(1, "b"));

    DeviceAgreement agreement = DeviceAgreement.of(AUTO, ranks);

    assertThat(agreement)
        .isEqualTo(new DeviceAgreement(Device.Type.CPU, "rank 1 on host b has none: no driver"));
    assertThat(agreement.applyTo(ranks.get(0)).device()).isEqualTo("cpu");
    assertThatThrownBy(() -> DeviceAgreement.of(CUDA, ranks))
        .isInstanceOf(IllegalStateException.class)
        .hasMessage(
            "Cannot start training on GPUs: expected one that it can use for each of 2 ranks, got none for 1 of them: rank 1 on host b has none: no driver. Mend that, keep executors off that host, or set device.type to cpu or auto.");
  }

  @Test
  void whereNobodyHasOneAutoIsTheProcessorWithoutAWord() {
    assertThat(DeviceAgreement.of(AUTO, List.of(rank(0, "a"), rank(1, "b"))))
        .isEqualTo(new DeviceAgreement(Device.Type.CPU, null));
  }

  @Test
  void factsReadBackAsWritten() {
    RankFacts facts = rank(1, "b", gpu(0, "GPU-1"));

    assertThat(RankFacts.parse(facts.toJson())).isEqualTo(facts);
  }

  private static Gpu gpu(int index, String uuid) {
    return new Gpu(
        index, "GPU %d (card)".formatted(index), uuid, "0000:00:00.0", "cuda:" + index, 100, 50);
  }

  private static RankFacts rank(int number, String host, Gpu... gpus) {
    RankGpus found =
        gpus.length == 0 ? RankGpus.none("no driver") : new RankGpus(List.of(gpus), null);
    return new RankFacts(number, host, "e", 1, "auto", found, 1, 10, "", 0, null, null);
  }
}
