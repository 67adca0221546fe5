package io.sparktrainer.spark;

import java.io.File;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Spark from the class path, without an installation. Masters, workers and {@code local-cluster}
 * start their processes from a {@code SPARK_HOME} with a {@code jars} folder; this makes such a
 * folder of links to the jars of a class path, ours among them.
 */
public final class EmbeddedSpark {
  private EmbeddedSpark() {}

  /**
   * Makes or updates {@code home} for this JVM's class path.
   *
   * @return Spark options that processes started from it need: folders of the class path, which
   *     cannot be linked as jars
   * @throws IOException if the folder cannot be written
   */
  public static Map<String, String> prepare(Path home) throws IOException {
    return prepare(home, System.getProperty("java.class.path"));
  }

  static Map<String, String> prepare(Path home, String classPath) throws IOException {
    Path jars = Files.createDirectories(home.resolve("jars"));
    Map<String, Path> wanted = new LinkedHashMap<>();
    List<String> folders = new ArrayList<>();
    for (String entry : classPath.split(File.pathSeparator, -1)) {
      Path path = Path.of(entry).toAbsolutePath().normalize();
      if (Files.isDirectory(path)) {
        folders.add(path.toString());
      } else if (entry.endsWith(".jar") && Files.exists(path)) {
        String name = path.getFileName().toString();
        // Two artifacts may share a file name.
        wanted.put(wanted.containsKey(name) ? wanted.size() + "-" + name : name, path);
      }
    }
    try (Stream<Path> present = Files.list(jars)) {
      for (Path link : present.toList()) {
        Path target = wanted.get(link.getFileName().toString());
        if (!Files.isSymbolicLink(link) || !Files.readSymbolicLink(link).equals(target)) {
          Files.delete(link);
        }
      }
    }
    for (Map.Entry<String, Path> jar : wanted.entrySet()) {
      link(jars.resolve(jar.getKey()), jar.getValue());
    }
    return folders.isEmpty()
        ? Map.of()
        : Map.of(
            "spark.executor.extraClassPath",
            folders.stream().collect(Collectors.joining(File.pathSeparator)));
  }

  private static void link(Path link, Path target) throws IOException {
    if (!Files.exists(link, LinkOption.NOFOLLOW_LINKS)) {
      try {
        Files.createSymbolicLink(link, target);
      } catch (FileAlreadyExistsException e) {
        // another process prepares the same folder at this moment
      }
    }
  }

  /** Makes the folder that is named by the only argument, for scripts. */
  public static void main(String[] args) throws IOException {
    Map<String, String> unused = prepare(Path.of(args[0]));
  }
}
