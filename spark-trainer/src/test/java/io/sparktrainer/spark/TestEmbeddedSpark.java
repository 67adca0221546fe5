package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TestEmbeddedSpark {
  @TempDir Path folder;

  @Test
  void jarsAreLinkedAndFoldersHandedOn() throws Exception {
    Path jar = file("a/one.jar");
    Path twin = file("b/one.jar");
    Path classes = Files.createDirectories(folder.resolve("classes"));

    var options =
        EmbeddedSpark.prepare(home(), classPath(jar, twin, classes, folder.resolve("gone.jar")));

    assertThat(options)
        .containsOnly(java.util.Map.entry("spark.executor.extraClassPath", classes.toString()));
    assertThat(home().resolve("jars").toFile().list())
        .containsExactlyInAnyOrder("one.jar", "1-one.jar");
    assertThat(Files.readSymbolicLink(home().resolve("jars/one.jar"))).isEqualTo(jar);
    assertThat(Files.readSymbolicLink(home().resolve("jars/1-one.jar"))).isEqualTo(twin);
  }

  @Test
  void linksOfAnEarlierClassPathGo() throws Exception {
    EmbeddedSpark.prepare(home(), classPath(file("a/one.jar"), file("a/two.jar")));
    Path moved = file("b/two.jar");

    var options = EmbeddedSpark.prepare(home(), classPath(moved));

    assertThat(options).isEmpty();
    assertThat(home().resolve("jars").toFile().list()).containsExactly("two.jar");
    assertThat(Files.readSymbolicLink(home().resolve("jars/two.jar"))).isEqualTo(moved);
  }

  private Path home() {
    return folder.resolve("home");
  }

  private Path file(String name) throws Exception {
    Path file = folder.resolve(name);
    Files.createDirectories(file.getParent());
    return Files.writeString(file, "");
  }

  private static String classPath(Path... entries) {
    return String.join(
        File.pathSeparator, java.util.Arrays.stream(entries).map(Path::toString).toList());
  }
}
