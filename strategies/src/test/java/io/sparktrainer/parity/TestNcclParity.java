package io.sparktrainer.parity;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.NcclId;
import io.sparktrainer.comm.NcclRendezvous;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.strategy.fsdp.GatherOrder;
import io.sparktrainer.strategy.fsdp.GroupedUnit;
import io.sparktrainer.testing.ChildJvm;
import io.sparktrainer.testing.Golden;
import io.sparktrainer.testing.StandIns;
import io.sparktrainer.torch.Device;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * Golden cases over NCCL, on stand-ins for devices: no strategy may count on Gloo. The same JVM
 * checks what fsdp asks of NCCL beside the values.
 */
class TestNcclParity {
  private static final List<String> CASES =
      List.of("ddp2-cnn-bn-sgd", "ddp2-mlp-join-uneven", "fsdp2-gpt-full", "fsdp4-gpt-hybrid2x2");

  /** Runs the cases in a JVM that sees the stand-ins. */
  static final class Cases {
    private Cases() {}

    public static void main(String[] arguments) throws IOException {
      StandIns.allow();
      GatherOrder.check();
      GroupedUnit.check();
      System.setProperty("golden.dir", arguments[0]);
      for (GoldenCase golden : cases().toList()) {
        GoldenRun.Result[] results = new GoldenRun.Result[golden.world()];
        NcclId id = NcclId.create();
        RankThreads.runConnected(
            golden.world(),
            place -> NcclRendezvous.connect(id, place, Device.CPU),
            group -> {
              GoldenRun.Result result = TestGoldenParity.supported(golden).run(group);
              results[group.rank()] = result;
            });
        Deviations deviations = TestGoldenParity.deviations(golden, Arrays.asList(results));
        System.out.println(golden + " over NCCL: " + deviations);
        deviations.check(golden);
      }
    }
  }

  private static Stream<GoldenCase> cases() {
    return Golden.cases().stream()
        .map(GoldenCase::read)
        .filter(golden -> CASES.contains(golden.name()));
  }

  @Test
  void trainsAsPyTorchDid() {
    ChildJvm.Result result =
        ChildJvm.run(StandIns.environment(Map.of()), Cases.class, Golden.folder().toString());
    System.out.println(result.output());
    assertThat(result.exitCode()).as(result.output()).isZero();
    cases().forEach(golden -> assertThat(result.output()).contains(golden + " over NCCL: "));
  }
}
