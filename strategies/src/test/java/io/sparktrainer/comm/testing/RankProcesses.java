package io.sparktrainer.comm.testing;

import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.comm.StoreServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Runs every rank of a group as a child JVM with this JVM's class path. A rank's main class finds
 * its place with {@link #rendezvous(String[])}; what it prints and its exit code come back.
 */
public final class RankProcesses implements AutoCloseable {
  /** Longest time a whole run may take; a busy machine needs long to load libtorch. */
  public static final int RUN_SECONDS = 180;

  private static final int PLACE_ARGUMENTS = 6;

  private final StoreServer server;
  private final List<Child> children = new ArrayList<>();

  private RankProcesses(StoreServer server) {
    this.server = server;
  }

  /**
   * A child that has ended.
   *
   * @param rank its rank
   * @param exitCode 0 after success, 128 + n after signal n
   * @param output what it wrote to standard output and standard error, in the order written
   */
  public record Result(int rank, int exitCode, String output) {
    /** The output's lines that start with {@code prefix}, without it. */
    public List<String> lines(String prefix) {
      return output
          .lines()
          .filter(line -> line.startsWith(prefix))
          .map(line -> line.substring(prefix.length()))
          .toList();
    }
  }

  private record Child(Process process, Path output) {}

  /** Runs {@code main} on every rank and waits for all. */
  public static List<Result> run(
      int worldSize, int timeoutSeconds, Class<?> main, String... arguments) {
    try (RankProcesses processes = start(worldSize, timeoutSeconds, main, arguments)) {
      return processes.await(RUN_SECONDS);
    }
  }

  /**
   * Starts {@code main} on every rank.
   *
   * @param timeoutSeconds for the rendezvous, and so for every collective
   * @param arguments handed to every rank behind its place
   */
  public static RankProcesses start(
      int worldSize, int timeoutSeconds, Class<?> main, String... arguments) {
    return start(worldSize, timeoutSeconds, Map.of(), main, arguments);
  }

  /** The same with more variables in every rank's environment. */
  public static RankProcesses start(
      int worldSize,
      int timeoutSeconds,
      Map<String, String> environment,
      Class<?> main,
      String... arguments) {
    RankProcesses processes = new RankProcesses(StoreServer.open("127.0.0.1", worldSize));
    try {
      for (int rank = 0; rank < worldSize; rank++) {
        Rendezvous place = processes.server.rendezvous(rank, timeoutSeconds);
        processes.children.add(startChild(place, environment, main, arguments));
      }
    } catch (IOException e) {
      processes.close();
      throw new UncheckedIOException(e);
    }
    return processes;
  }

  private static Child startChild(
      Rendezvous place, Map<String, String> environment, Class<?> main, String... arguments)
      throws IOException {
    Path output = Files.createTempFile("rank-" + place.rank() + "-", ".log");
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-Xmx512m", "-XX:+UseSerialGC", "-XX:-CreateCoredumpOnCrash"));
    command.add("-XX:ErrorFile=" + output.resolveSibling(output.getFileName() + ".hs_err"));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    command.addAll(
        List.of(
            place.host(),
            String.valueOf(place.port()),
            place.secret(),
            String.valueOf(place.rank()),
            String.valueOf(place.worldSize()),
            String.valueOf(place.timeoutSeconds())));
    command.addAll(List.of(arguments));
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
    builder.environment().putAll(environment);
    Process process = builder.start();
    return new Child(process, output);
  }

  /** A child's place, from the arguments of its {@code main}. */
  public static Rendezvous rendezvous(String[] arguments) {
    return new Rendezvous(
        arguments[0],
        Integer.parseInt(arguments[1]),
        arguments[2],
        Integer.parseInt(arguments[3]),
        Integer.parseInt(arguments[4]),
        Integer.parseInt(arguments[5]));
  }

  /** The arguments behind the place. */
  public static String[] arguments(String[] arguments) {
    return List.of(arguments).subList(PLACE_ARGUMENTS, arguments.length).toArray(String[]::new);
  }

  /** What rank {@code rank} has written so far. */
  public String output(int rank) {
    try {
      return Files.readString(children.get(rank).output(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Ends rank {@code rank} as the kernel would: no close, no exit hooks. */
  public void kill(int rank) {
    children.get(rank).process().destroyForcibly();
  }

  /**
   * Waits for all ranks.
   *
   * @throws RankFailure if they have not ended in time, with what they wrote
   */
  public List<Result> await(int seconds) {
    long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
    List<Result> results = new ArrayList<>();
    for (int rank = 0; rank < children.size(); rank++) {
      Process process = children.get(rank).process();
      try {
        if (!process.waitFor(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) {
          throw new RankFailure(
              "Rank %d did not end within %d s; it wrote:%n%s"
                  .formatted(rank, seconds, output(rank)));
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new RankFailure("The wait for rank " + rank + " was interrupted.");
      }
      results.add(new Result(rank, process.exitValue(), output(rank)));
    }
    return results;
  }

  /** Ends what still runs. */
  @Override
  public void close() {
    for (Child child : children) {
      child.process().destroyForcibly();
      try {
        child.process().waitFor();
        Files.deleteIfExists(child.output());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
    server.close();
  }
}
