package io.sparktrainer.parity;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.GlooCommunicator;
import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.testing.Golden;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;
import org.opentest4j.TestAbortedException;

/**
 * The golden cases of several ranks, every rank a process: one group of processes per world size.
 */
class ITGoldenParityProcesses {
  private static final int TIMEOUT_SECONDS = 120;
  private static final ObjectMapper JSON = new ObjectMapper();

  /** One rank: runs every case of its world and leaves a file for each. */
  static final class Rank {
    private Rank() {}

    public static void main(String[] arguments) throws IOException {
      Path folder = Path.of(RankProcesses.arguments(arguments)[0]);
      try (Communicator all = GlooCommunicator.connect(RankProcesses.rendezvous(arguments))) {
        int[] ranks = IntStream.range(0, all.worldSize()).toArray();
        for (GoldenCase golden : cases(all.worldSize())) {
          // the strategy closes the group it is given
          Communicator group = all.subGroup(golden.name(), ranks);
          GoldenRun.Result result = TestGoldenParity.supported(golden).run(group);
          JSON.writeValue(
              file(folder, golden, all.rank()).toFile(),
              Map.of(
                  "losses", result.losses(),
                  "gradNorms", result.gradNorms(),
                  "finalState", result.finalState()));
        }
      }
    }
  }

  @TestFactory
  Stream<DynamicTest> worlds(@TempDir Path folder) {
    return Golden.cases().stream()
        .map(GoldenCase::read)
        .map(GoldenCase::world)
        .filter(world -> world > 1)
        .distinct()
        .sorted()
        .map(world -> DynamicTest.dynamicTest(world + " processes", () -> run(world, folder)));
  }

  private static void run(int world, Path folder) throws IOException {
    List<GoldenCase> cases = cases(world);
    assertThat(cases).isNotEmpty();
    for (RankProcesses.Result ended :
        RankProcesses.run(world, TIMEOUT_SECONDS, Rank.class, folder.toString())) {
      assertThat(ended.exitCode()).as(ended.output()).isZero();
    }
    for (GoldenCase golden : cases) {
      List<GoldenRun.Result> results = new ArrayList<>();
      for (int rank = 0; rank < world; rank++) {
        results.add(read(file(folder, golden, rank)));
      }
      Deviations deviations = TestGoldenParity.deviations(golden, results);
      System.out.println(golden + " in " + world + " processes: " + deviations);
      deviations.check(golden);
    }
  }

  private static List<GoldenCase> cases(int world) {
    return Golden.cases().stream()
        .map(GoldenCase::read)
        .filter(golden -> golden.world() == world && isSupported(golden))
        .toList();
  }

  private static boolean isSupported(GoldenCase golden) {
    try {
      TestGoldenParity.supported(golden);
      return true;
    } catch (TestAbortedException e) {
      System.out.println(golden + ": skipped, " + e.getMessage());
      return false;
    }
  }

  private static Path file(Path folder, GoldenCase golden, int rank) {
    return folder.resolve(golden.name() + ".rank" + rank + ".json");
  }

  private static GoldenRun.Result read(Path file) throws IOException {
    var tree = JSON.readTree(file.toFile());
    return new GoldenRun.Result(
        JSON.convertValue(tree.get("losses"), new TypeReference<List<Double>>() {}),
        JSON.convertValue(tree.get("gradNorms"), new TypeReference<List<Double>>() {}),
        JSON.convertValue(tree.get("finalState"), new TypeReference<Map<String, double[]>>() {}));
  }
}
