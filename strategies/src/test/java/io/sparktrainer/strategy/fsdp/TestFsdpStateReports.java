package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.CollectiveException;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

/** Public bug reports about the whole state of a sharded model, as tests of the right behaviour. */
class TestFsdpStateReports {
  private static Block stack() {
    return new Models.Stack(2);
  }

  /** Lightning 16815, 102821, 136228, PR 94109: resuming on another number of ranks. */
  @Test
  void report28ShardsOfOneWorldAreShardsOfAnother() {
    List<Map<String, double[]>> wholes = new ArrayList<>();
    for (int ranks : new int[] {1, 3, 4}) {
      List<Map<String, Part>> parts =
          Runs.sharded(
                  ranks,
                  TestFsdpStateReports::stack,
                  List.of(FsdpOptions.defaults()),
                  (model, strategy) -> parts(strategy))
              .get(0);
      Map<String, double[]> whole = new LinkedHashMap<>();
      for (Map<String, Part> ofRank : parts) {
        ofRank.forEach(
            (name, part) -> {
              double[] values = whole.computeIfAbsent(name, key -> new double[(int) part.numel()]);
              System.arraycopy(part.values(), 0, values, (int) part.offset(), part.length());
            });
      }
      wholes.add(whole);
    }
    Runs.assertClose(wholes.get(1), wholes.get(0), 0);
    Runs.assertClose(wholes.get(2), wholes.get(0), 0);
  }

  private record Part(long numel, long offset, List<Double> list) {
    int length() {
      return list.size();
    }

    double[] values() {
      return list.stream().mapToDouble(Double::doubleValue).toArray();
    }
  }

  private static Map<String, Part> parts(FsdpStrategy strategy) {
    Map<String, Part> parts = new LinkedHashMap<>();
    strategy
        .shards()
        .forEach(
            (name, shard) ->
                parts.put(
                    name,
                    new Part(
                        shard.shape().stream().reduce(1L, (a, b) -> a * b),
                        shard.offset(),
                        Arrays.stream(Values.of(shard.values())).boxed().toList())));
    return parts;
  }

  /** 80581, 122903, 143536: the full state hangs when ranks disagree. */
  @Test
  void report30AFullStateThatSomeRankDoesNotAskForTimesOut() {
    assertThatThrownBy(
            () ->
                RankThreads.run(
                    2,
                    3,
                    rendezvous -> {
                      Block own = Models.seeded(0, TestFsdpStateReports::stack);
                      try (var strategy =
                              new FsdpStrategy(
                                  own,
                                  GlooCommunicator.connect(rendezvous),
                                  FsdpOptions.defaults());
                          var scope = NativeScope.open()) {
                        if (strategy.rank() == 0) {
                          try {
                            strategy.fullState();
                          } catch (CollectiveException e) {
                            strategy.abort("no state");
                            throw e;
                          }
                        } else {
                          strategy.communicator().barrier().await();
                        }
                      }
                    }))
        .hasRootCauseInstanceOf(RuntimeException.class)
        .hasStackTraceContaining("Cannot complete");
  }

  /** The state of a training can be put into another one, and a wrong one is refused everywhere. */
  @Test
  void loadsAFullStateOnEveryRankOrOnNone() {
    Runs.sharded(
        3,
        TestFsdpStateReports::stack,
        List.of(FsdpOptions.defaults()),
        (model, strategy) -> {
          try (var scope = NativeScope.open()) {
            Map<String, Tensor> state = strategy.fullState();
            Map<String, Tensor> doubled = new LinkedHashMap<>();
            state.forEach((name, tensor) -> doubled.put(name, tensor.add(tensor)));
            strategy.loadFullState(doubled);
            Map<String, Tensor> loaded = strategy.fullState();
            loaded.forEach(
                (name, tensor) ->
                    assertThat(Values.of(tensor)).isEqualTo(Values.of(doubled.get(name))));
            doubled.remove("in.bias");
            assertThatThrownBy(() -> strategy.loadFullState(doubled))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage(
                    "Cannot load a state: expected \"in.bias\" of shape [7], got none (rank %d of 3). Use a state of the same model."
                        .formatted(strategy.rank()));
            return loaded.size();
          }
        });
  }

  /** Found beside the reports: PyTorch's full state with offload crashes on the CPU. */
  @Test
  void findFAFullStateWithOffloadOnTheCpu() {
    Runs.Recipe recipe = Runs.Recipe.adamW(2);
    Runs.Outcome expected = Runs.alone(TestFsdpStateReports::stack, 2, recipe);
    List<List<Runs.Outcome>> offloaded =
        Runs.sharded(
            2,
            TestFsdpStateReports::stack,
            List.of(FsdpOptions.builder().cpuOffload(true).build()),
            recipe);
    Runs.assertClose(offloaded.get(0).get(0).state(), expected.state(), 2e-5);
    assertThat(offloaded.get(0).get(1).state()).isEmpty();
  }
}
