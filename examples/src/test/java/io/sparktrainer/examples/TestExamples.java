package io.sparktrainer.examples;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.spark.TrainingResult;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.SparkTest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.io.TempDir;

@SparkTest(master = "local[2]")
class TestExamples {
  private static final String PROGRAM = "src/main/java/io/sparktrainer/examples/TrainFromSql.java";

  @Test
  void theProgramOfTheReadmeTrains(SparkSession spark) throws IOException {
    assertThat(spark.sparkContext().isStopped()).isFalse();
    TrainFromSql.main(new String[0]);
    JsonNode result = new ObjectMapper().readTree(Path.of("run/from-sql/result.json").toFile());
    assertThat(result.path("epochs")).hasSize(5);
    assertThat(result.path("epochs").path(4).path("evalAccuracy").asDouble()).isGreaterThan(0.95);
  }

  @Test
  void theReadmeShowsTheProgramAsItIs() throws IOException {
    String program = Files.readString(Path.of(PROGRAM));
    String body =
        program.substring(program.indexOf("SparkSession spark ="), program.lastIndexOf("  }"));
    List<String> shown =
        Files.readString(Path.of("../README.md")).lines().map(String::strip).toList();
    assertThat(shown).containsSubsequence(body.lines().map(String::strip).toList());
  }

  @Test
  void theCensusPipelineLearnsFromTheFileAsFound(SparkSession spark, @TempDir Path folder) {
    TrainingResult result =
        AdultCensusPipeline.run(
            spark,
            "data/adult-census.csv.gz",
            "training.epochs=1",
            "metrics={console: false, jsonl: false}",
            "output=" + folder);

    // The test half of 1996 is as large as its readme says, and so is the training half.
    assertThat(result.lastEpoch().rows()).isEqualTo(32_561);
    assertThat(result.lastEpoch().evalAccuracy()).isGreaterThan(0.845);
  }

  @Test
  void everyMicroBatchGoesOnFromTheModelOfTheLast(SparkSession spark, @TempDir Path folder)
      throws Exception {
    Path arrived = folder.resolve("arrived");
    String output = folder.resolve("run").toString();
    TrainOnStream.arrive(spark, arrived, 2);
    List<TrainingResult> results = TrainOnStream.run(spark, arrived, output);

    assertThat(results).hasSize(2);
    assertThat(results).extracting(result -> result.lastEpoch().rows()).containsOnly(2400L);
    assertThat(results.get(1).lastEpoch().evalLoss())
        .isLessThan(0.9 * results.get(0).lastEpoch().evalLoss());
    // The stream goes on later, with what has arrived since.
    TrainOnStream.arrive(spark, arrived, 1);
    List<TrainingResult> later = TrainOnStream.run(spark, arrived, output);
    assertThat(later).hasSize(1);
    assertThat(later.get(0).epochs().get(0).loss())
        .isLessThan(results.get(1).epochs().get(0).loss());
  }

  @Test
  void theReadmeNamesEveryExample() throws IOException {
    String readme = Files.readString(Path.of("README.md"));
    try (Stream<Path> configs = Files.list(Path.of("configs"));
        Stream<Path> programs = Files.list(Path.of("src/main/java/io/sparktrainer/examples"))) {
      List<String> names =
          Stream.concat(configs, programs)
              .map(file -> file.getFileName().toString().replace(".java", ""))
              .filter(name -> !name.equals("package-info"))
              .toList();
      assertThat(names).hasSizeGreaterThan(4).allMatch(readme::contains);
    }
  }

  @TestFactory
  Stream<DynamicTest> everyConfigurationIsValid() throws IOException {
    try (Stream<Path> files = Files.list(Path.of("configs"))) {
      return files.sorted().toList().stream()
          .map(
              file ->
                  DynamicTest.dynamicTest(
                      file.getFileName().toString(),
                      () -> assertThat(TrainerConfig.read(file).toYaml()).isNotEmpty()));
    }
  }
}
