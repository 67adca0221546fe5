package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.NcclId;
import io.sparktrainer.comm.NcclRendezvous;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.Device;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.bytedeco.pytorch.global.torch;

/** A unit with several flat parameters, on stand-ins for devices; for a JVM that sees them. */
public final class GroupedUnit {
  private static final int RANKS = 2;

  private GroupedUnit() {}

  /**
   * All of a unit's flat parameters, here that of batch normalisation and the rest, are gathered
   * and reduced as one, with the losses that Gloo gives.
   */
  public static void check() throws IOException {
    StrategySpec spec = new StrategySpec.Fsdp(RANKS, FsdpOptions.defaults());
    List<Double> losses = RankThreads.collect(RANKS, group -> TestFsdpBatchNorm.train(spec, group));
    Path log = Files.createTempFile("standin", ".log");
    try {
      torch.set_env("STANDIN_LOG", log.toString(), true);
      NcclId id = NcclId.create();
      RankThreads.runConnected(
          RANKS,
          place -> NcclRendezvous.connect(id, place, Device.CPU),
          group ->
              assertThat(TestFsdpBatchNorm.train(spec, group)).isEqualTo(losses.get(group.rank())));
      List<String> calls = Files.readAllLines(log);
      int passes = RANKS * TestFsdpBatchNorm.STEPS;
      assertThat(calls).filteredOn(call -> call.startsWith("ReduceScatter")).hasSize(2 * passes);
      assertThat(calls).filteredOn(call -> call.startsWith("GroupStart")).hasSize(2 * passes);
    } finally {
      torch.set_env("STANDIN_LOG", "/dev/null", true);
      Files.delete(log);
    }
  }
}
