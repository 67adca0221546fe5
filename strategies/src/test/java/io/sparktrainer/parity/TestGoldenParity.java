package io.sparktrainer.parity;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.testing.Golden;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.NativeScope;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.opentest4j.TestAbortedException;

/**
 * Trains as PyTorch did and compares: losses of every rank and step, gradient norms, final weights.
 * One test per case folder under {@code -Dgolden.dir}; new folders need no new code.
 */
class TestGoldenParity {
  @Test
  void hasCases() {
    assertThat(Golden.cases()).isNotEmpty();
  }

  @TestFactory
  Stream<DynamicTest> cases() {
    return Golden.cases().stream()
        .map(GoldenCase::read)
        .map(golden -> DynamicTest.dynamicTest(golden.name(), () -> compare(golden)));
  }

  private static void compare(GoldenCase golden) throws IOException {
    try {
      GoldenRun run = supported(golden);
      List<GoldenRun.Result> results = RankThreads.collect(golden.world(), run::run);
      Deviations deviations = deviations(golden, results);
      System.out.println(golden + ": " + deviations);
      deviations.check(golden);
    } catch (TestAbortedException e) {
      System.out.println(golden + ": skipped, " + e.getMessage());
      throw e;
    }
  }

  /** Only what this project does not have yet is skipped, and named. */
  static GoldenRun supported(GoldenCase golden) {
    String unknown = golden.unknownKey();
    if (unknown != null) {
      throw GoldenSpecs.missing("option " + unknown);
    }
    if (!GoldenModels.NAMES.contains(golden.model())) {
      throw GoldenSpecs.missing("model " + golden.model());
    }
    return new GoldenRun(golden);
  }

  static Deviations deviations(GoldenCase golden, List<GoldenRun.Result> results)
      throws IOException {
    Deviations deviations = new Deviations();
    for (int rank = 0; rank < results.size(); rank++) {
      deviations.addLosses(golden.losses(rank), results.get(rank).losses());
      deviations.addGradNorms(golden.gradNorms(), results.get(rank).gradNorms());
    }
    try (var scope = NativeScope.open()) {
      deviations.addWeights(
          values(golden.initialState()), values(golden.finalState()), results.get(0).finalState());
    }
    return deviations;
  }

  private static Map<String, double[]> values(Map<String, Tensor> state) {
    Map<String, double[]> values = new LinkedHashMap<>();
    state.forEach((name, tensor) -> values.put(name, Values.of(tensor)));
    return values;
  }
}
