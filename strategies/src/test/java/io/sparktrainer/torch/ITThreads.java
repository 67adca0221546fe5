package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * That a rank uses the threads it was given and no more, by the processor time of each thread of a
 * child process while it multiplies (the BLAS's threads) and maps (libtorch's own).
 */
@Timeout(300)
class ITThreads {
  private static final int CHILD_SECONDS = 200;
  private static final int SIZE = 1536;
  private static final int PRODUCTS = 12;
  private static final int MAPS = 60;
  private static final int MAPPED_ELEMENTS = 4_000_000;

  /** Prints how many threads did a noticeable part of the work. */
  static final class Work {
    public static void main(String[] arguments) throws Exception {
      int ranks = Integer.parseInt(arguments[0]);
      int threadsPerRank = Integer.parseInt(arguments[1]);
      NativeLibraries.load();
      Map<String, Long> before = ticks();
      List<Thread> threads = new ArrayList<>();
      for (int rank = 0; rank < ranks; rank++) {
        Thread thread = new Thread(() -> work(threadsPerRank), "rank " + rank);
        threads.add(thread);
        thread.start();
      }
      Map<String, Long> spent = new HashMap<>();
      while (threads.stream().anyMatch(Thread::isAlive)) {
        // A thread's time goes with the thread, so the last look at it counts.
        ticks()
            .forEach((thread, ticks) -> spent.put(thread, ticks - before.getOrDefault(thread, 0L)));
        TimeUnit.MILLISECONDS.sleep(20);
      }
      long total = spent.values().stream().mapToLong(Long::longValue).sum();
      long noticeable = total / (10L * ranks * threadsPerRank);
      long busy = spent.values().stream().filter(each -> each > noticeable).count();
      System.out.println("SPENT " + spent);
      System.out.println("BUSY " + busy);
    }

    private static void work(int count) {
      Threads.use(count);
      try (var scope = NativeScope.open()) {
        Tensor matrix = Tensors.zeros(DType.FLOAT32, Device.CPU, SIZE, SIZE).fill_(one());
        Tensor flat = Tensors.zeros(DType.FLOAT32, Device.CPU, MAPPED_ELEMENTS).fill_(one());
        for (int i = 0; i < PRODUCTS; i++) {
          try (var inner = NativeScope.open()) {
            matrix.matmul(matrix);
          }
        }
        for (int i = 0; i < MAPS; i++) {
          try (var inner = NativeScope.open()) {
            flat.tanh();
          }
        }
        if (Threads.inUse() != count) {
          throw new IllegalStateException("expected " + count + ", got " + Threads.inUse());
        }
      }
    }

    private static org.bytedeco.pytorch.Scalar one() {
      return Tensors.scalar(0.5);
    }

    /** Processor time of each thread but the JVM's own and the watching one, in clock ticks. */
    private static Map<String, Long> ticks() throws IOException {
      Map<String, Long> ticks = new HashMap<>();
      String self = Files.readString(Path.of("/proc/thread-self/stat")).split(" ", -1)[0];
      try (var tasks = Files.list(Path.of("/proc/self/task"))) {
        for (Path task : tasks.toList()) {
          try {
            String stat = Files.readString(task.resolve("stat"));
            String name = stat.substring(stat.indexOf('(') + 1, stat.lastIndexOf(')'));
            String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ", -1);
            if (!name.matches("C[12] .*|VM .*|GC .*|G1 .*|.*Sweeper.*|.*Dealloc.*")
                && !task.endsWith(self)) {
              ticks.put(
                  task.getFileName().toString(),
                  Long.parseLong(fields[11]) + Long.parseLong(fields[12]));
            }
          } catch (java.nio.file.NoSuchFileException e) {
            // It has ended between the listing and the look.
          }
        }
      }
      return ticks;
    }
  }

  @ParameterizedTest(name = "{0} ranks with {1} threads each keep {2} busy")
  @CsvSource({"1, 1, 1", "1, 2, 2", "2, 1, 2"})
  void ranksUseWhatTheyWereGiven(int ranks, int threadsPerRank, int expected) throws Exception {
    Path output = Files.createTempFile("threads-", ".log");
    ProcessBuilder builder =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                System.getProperty("java.class.path"),
                Work.class.getName(),
                String.valueOf(ranks),
                String.valueOf(threadsPerRank))
            .redirectErrorStream(true)
            .redirectOutput(output.toFile());
    // Set for tests; threads that only wait are to show here, as they do elsewhere.
    builder.environment().remove("OMP_WAIT_POLICY");
    Process process = builder.start();
    try {
      assertThat(process.waitFor(CHILD_SECONDS, TimeUnit.SECONDS)).isTrue();
      String said = Files.readString(output, StandardCharsets.UTF_8);
      assertThat(said).contains("BUSY " + expected + "\n");
    } finally {
      process.destroyForcibly();
      Files.deleteIfExists(output);
    }
  }
}
