package io.sparktrainer.spark.cli;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/** Runs the scripts of bin/ as a user would, with what the build has packaged. */
final class Scripts {
  private Scripts() {}

  /** A script that runs, with what it has printed so far. */
  static final class Running implements AutoCloseable {
    private final Process process;
    private final Queue<String> output = new ConcurrentLinkedQueue<>();
    private final CompletableFuture<Matcher> found = new CompletableFuture<>();
    private final Thread reader;

    private Running(Process process, @Nullable Pattern awaited) {
      this.process = process;
      this.reader = new Thread(() -> read(awaited), "script-output");
      reader.setDaemon(true);
      reader.start();
    }

    private void read(@Nullable Pattern awaited) {
      try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
        String line;
        while ((line = lines.readLine()) != null) {
          output.add(line);
          if (awaited != null) {
            Matcher matcher = awaited.matcher(line);
            if (matcher.find()) {
              found.complete(matcher);
            }
          }
        }
      } catch (IOException e) {
        // close() ends the process, and with it the stream, while this thread reads.
        output.add(e.toString());
      } finally {
        found.completeExceptionally(new IllegalStateException("ended early: " + output()));
      }
    }

    /** Waits for a line with the pattern that {@link Scripts#start} was given. */
    Matcher await(int seconds) throws Exception {
      return found.get(seconds, TimeUnit.SECONDS);
    }

    int exitCode(int seconds) throws InterruptedException {
      if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
        throw new IllegalStateException("still running: " + output());
      }
      reader.join();
      return process.exitValue();
    }

    String output() {
      return String.join("\n", output);
    }

    @Override
    public void close() {
      process.descendants().forEach(ProcessHandle::destroy);
      process.destroy();
    }
  }

  /**
   * Starts a script.
   *
   * @param awaited what {@link Running#await} waits for, or null
   */
  static Running start(@Nullable Pattern awaited, String script, String... arguments)
      throws IOException {
    return start(awaited, Map.of(), script, arguments);
  }

  /**
   * Starts a script in an environment without SPARK_HOME, but for what {@code environment} says.
   *
   * @param awaited what {@link Running#await} waits for, or null
   */
  static Running start(
      @Nullable Pattern awaited,
      Map<String, String> environment,
      String script,
      String... arguments)
      throws IOException {
    List<String> command = new ArrayList<>();
    command.add(Path.of("bin", script).toAbsolutePath().toString());
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().remove("SPARK_HOME");
    builder.environment().putAll(environment);
    return new Running(builder.start(), awaited);
  }
}
