package io.sparktrainer.testing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Where the reference runs of PyTorch lie: {@code -Dgolden.dir}, or the module's test resources.
 */
public final class Golden {
  private Golden() {}

  public static Path folder() {
    return Path.of(System.getProperty("golden.dir", "src/test/resources/golden"));
  }

  /** The folders that hold a case. */
  public static List<Path> cases() {
    try (var folders = Files.list(folder())) {
      return folders.filter(folder -> Files.exists(folder.resolve("case.json"))).sorted().toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
