package io.sparktrainer.notebooks;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.spark.testing.SparkTest;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs the notebook as a notebook server does: cell by cell, in one session. */
@SparkTest(master = "local[2]")
class TestQuickstart {
  private static final Path NOTEBOOK = Path.of("quickstart.ipynb");
  private static final Path NOTE = Path.of("quickstart.zpln");

  @AfterEach
  void forgetFolders() {
    System.clearProperty("digits.folder");
    System.clearProperty("run.folder");
  }

  @Test
  void everyCellRuns(SparkSession spark, @TempDir Path folder) throws Exception {
    System.setProperty("digits.folder", Path.of("../examples/data/mnist").toRealPath().toString());
    System.setProperty("run.folder", folder.resolve("run").toString());
    try (ScalaInterpreter interpreter = new ScalaInterpreter()) {
      interpreter.run("val spark = org.apache.spark.sql.SparkSession.active");
      for (String cell : Notebook.readJupyter(NOTEBOOK).codeCells()) {
        interpreter.run(cell);
      }
      String accuracy = interpreter.run("val accuracy = result.lastEpoch.evalAccuracy.toDouble");
      assertThat(Double.parseDouble(accuracy.strip().replaceFirst(".*= ", ""))).isGreaterThan(0.9);
      assertThat(folder.resolve("run/model.safetensors")).isNotEmptyFile();
    }
  }

  @Test
  void theZeppelinNoteHasTheSameCells() throws Exception {
    assertThat(Notebook.readZeppelin(NOTE)).isEqualTo(Notebook.readJupyter(NOTEBOOK));
  }
}
