package io.sparktrainer.examples;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
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
