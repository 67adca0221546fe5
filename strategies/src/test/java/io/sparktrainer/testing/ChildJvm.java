package io.sparktrainer.testing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Runs a main class in a JVM of its own, with this JVM's class path. */
public final class ChildJvm {
  /** Longest time that a child may take; a busy machine needs long to load libtorch. */
  private static final int RUN_SECONDS = 180;

  private ChildJvm() {}

  /**
   * A child that has ended.
   *
   * @param exitCode 0 after success, 128 + n after signal n
   * @param output what it wrote to standard output and standard error, in the order written
   */
  public record Result(int exitCode, String output) {}

  /** Runs {@code main} with more variables in its environment and waits for it. */
  public static Result run(Map<String, String> environment, Class<?> main, String... arguments) {
    return run(System.getProperty("java.class.path"), environment, main, arguments);
  }

  /** The same with another class path. */
  public static Result run(
      String classPath, Map<String, String> environment, Class<?> main, String... arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx512m", "-XX:+UseSerialGC", "-XX:-CreateCoredumpOnCrash"));
    command.addAll(List.of("-cp", classPath, main.getName()));
    command.addAll(List.of(arguments));
    try {
      Path output = Files.createTempFile("child-", ".log");
      ProcessBuilder builder =
          new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
      builder.environment().putAll(environment);
      Process process = builder.start();
      boolean ended = process.waitFor(RUN_SECONDS, TimeUnit.SECONDS);
      process.destroyForcibly().waitFor();
      String text = Files.readString(output, StandardCharsets.UTF_8);
      Files.delete(output);
      if (!ended) {
        throw new AssertionError("Child did not end within " + RUN_SECONDS + " s:\n" + text);
      }
      return new Result(process.exitValue(), text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError("The wait for a child was interrupted.", e);
    }
  }
}
