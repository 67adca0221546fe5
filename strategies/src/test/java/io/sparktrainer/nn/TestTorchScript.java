package io.sparktrainer.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.strategy.fsdp.UnitPlanner;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class TestTorchScript {
  private static final int ROWS = 6;
  private static final int STEPS = 5;

  @TempDir private Path folder;

  @Test
  void namesAreThoseOfTheStateDict() {
    try (TorchScript net = TorchScript.load(ScriptFiles.net(folder))) {
      assertThat(net.parameters()).containsOnlyKeys("weight", "frozen", "inner.weight");
      assertThat(net.buffers()).containsOnlyKeys("seen");
      assertThat(net.parameters().get("frozen").requires_grad()).isFalse();
      assertThat(net.parameters().get("inner.weight").requires_grad()).isTrue();
    }
  }

  @Test
  void followsTrainAndEval() {
    try (var scope = NativeScope.open();
        TorchScript net = TorchScript.load(ScriptFiles.net(folder))) {
      Tensor input = Tensors.of(new float[ROWS * 3], ROWS, 3);
      net.call(input);
      net.eval();
      net.call(input);

      assertThat(net.buffers().get("seen").item_float()).isEqualTo(ROWS);
    }
  }

  @Test
  void isOneUnitWhateverThePolicy() {
    try (TorchScript net = TorchScript.load(ScriptFiles.net(folder));
        Sequential model = new Sequential(List.of(net, new Linear(2, 2)))) {
      for (WrapPolicy policy :
          new WrapPolicy[] {new WrapPolicy.MarkedBlocks(), new WrapPolicy.MinParameters(7)}) {
        assertThat(UnitPlanner.plan(model, policy))
            .extracting(unit -> unit.name() + unit.parameters().size())
            .as("%s", policy)
            .contains("03");
      }
    }
  }

  static List<StrategySpec> strategies() {
    return List.of(
        StrategySpec.Dp.onCpu(2),
        new StrategySpec.Ddp(2, DdpOptions.defaults()),
        new StrategySpec.Fsdp(2, FsdpOptions.defaults()),
        new StrategySpec.Fsdp(
            2, FsdpOptions.builder().shardingStrategy(ShardingStrategy.SHARD_GRAD_OP).build()));
  }

  @ParameterizedTest
  @MethodSource("strategies")
  void trainsAsAlone(StrategySpec spec) {
    Path file = ScriptFiles.net(folder);
    Map<String, float[]> alone = train(new StrategySpec.None(0), file, new LocalCommunicator());
    Map<String, float[]> together =
        spec.workers() == 1
            ? train(spec, file, new LocalCommunicator())
            : RankThreads.collect(spec.workers(), group -> train(spec, file, group)).get(0);

    assertThat(together).containsOnlyKeys("weight", "frozen", "inner.weight");
    alone.forEach(
        (name, values) -> {
          for (int i = 0; i < values.length; i++) {
            assertThat(together.get(name)[i]).as(name).isCloseTo(values[i], within(1e-5f));
          }
        });
  }

  /** The parameters after some steps on this rank's part of the same rows. */
  private static Map<String, float[]> train(StrategySpec spec, Path file, Communicator group) {
    try (var scope = NativeScope.open();
        ParallelStrategy strategy = Strategies.create(spec, () -> TorchScript.load(file), group);
        Optimizer optimizer = OptimizerSpec.adamW().build().create(strategy.trainable())) {
      int rows = ROWS / strategy.worldSize();
      for (int step = 0; step < STEPS; step++) {
        float[] x = new float[rows * 3];
        float[] y = new float[rows * 2];
        for (int i = 0; i < x.length; i++) {
          x[i] = (float) Math.cos(i + strategy.rank() * x.length + step);
        }
        for (int i = 0; i < y.length; i++) {
          y[i] = (float) Math.cos(2.0 * (i + strategy.rank() * y.length) + step);
        }
        strategy.zeroGrad();
        Tensor unused =
            strategy.forwardBackward(
                new Tensor[] {Tensors.of(x, rows, 3)},
                Tensors.of(y, rows, 2),
                Losses.MSE,
                1,
                GradientSync.REDUCE);
        optimizer.step(1e-2);
      }
      Map<String, float[]> state = new TreeMap<>();
      strategy.fullState().forEach((name, tensor) -> state.put(name, Tensors.toFloats(tensor)));
      state.remove("seen"); // counts a rank's own rows
      return state;
    }
  }

  @Test
  void saysWhatIsWrongWithAFile() throws Exception {
    Path other = folder.resolve("other.pt");
    Files.writeString(other, "no archive");

    assertThatThrownBy(() -> TorchScript.load(other))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a file that torch.jit.save wrote, got " + other)
        .hasMessageContaining("torch.jit.script(model).save(file)");
    assertThatThrownBy(() -> TorchScript.load(folder.resolve("none.pt")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a file, got none at ");
  }
}
