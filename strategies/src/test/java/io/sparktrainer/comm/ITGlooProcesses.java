package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Ranks as processes: what threads of one JVM cannot show. */
@Timeout(400)
class ITGlooProcesses {
  private static final String SAID = "SAID ";

  /** One rank; the first argument behind its place says what it does. */
  static final class Rank {
    public static void main(String[] arguments) {
      Rendezvous rendezvous = RankProcesses.rendezvous(arguments);
      String task = RankProcesses.arguments(arguments)[0];
      Communicator group = GlooCommunicator.connect(rendezvous);
      try (var scope = NativeScope.open()) {
        switch (task) {
          case "reduce" -> reduce(group);
          case "wait for the killed" -> waitForTheKilled(group);
          case "leave" -> leave(group);
          case "mismatch" -> mismatch(group);
          default -> throw new IllegalArgumentException(task);
        }
      } catch (CollectiveException e) {
        System.out.println(SAID + e.getMessage());
        group.abort("failed");
      }
      group.close();
      System.out.println(SAID + "end");
    }

    private static void reduce(Communicator group) {
      Tensor tensor = Tensors.of(new float[] {group.rank(), 1}, 2);
      group.allReduce(tensor, ReduceOp.SUM).await();
      float[] sums = Tensors.toFloats(tensor);
      System.out.println(SAID + sums[0] + " " + sums[1] + " " + ProcessHandle.current().pid());
    }

    private static void waitForTheKilled(Communicator group) {
      group.barrier().await();
      System.out.println(SAID + "ready");
      if (group.rank() == 0) {
        group.barrier().await();
      } else {
        await();
      }
    }

    private static void await() {
      try {
        Thread.currentThread().join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }

    /** Ends as a crashed executor does, without a word to the group. */
    private static void leave(Communicator group) {
      group.barrier().await();
      if (group.rank() == 1) {
        Runtime.getRuntime().halt(3);
      }
      group.barrier().await();
    }

    private static void mismatch(Communicator group) {
      group.barrier().await();
      int elements = group.rank() == 0 ? 4 : 1 << 20;
      group.broadcast(Tensors.zeros(DType.FLOAT32, Device.CPU, elements), 1).await();
    }
  }

  @Test
  void processesReduceTogether() {
    int worldSize = 2;
    List<RankProcesses.Result> results = RankProcesses.run(worldSize, 120, Rank.class, "reduce");
    assertThat(results).hasSize(worldSize);
    float sum = worldSize * (worldSize - 1) / 2f;
    for (RankProcesses.Result result : results) {
      assertThat(result.exitCode()).as(result.output()).isZero();
      assertThat(result.lines(SAID).get(0)).startsWith(sum + " " + (float) worldSize + " ");
      assertThat(result.lines(SAID).get(1)).isEqualTo("end");
    }
    assertThat(results.stream().map(result -> result.lines(SAID).get(0))).doesNotHaveDuplicates();
  }

  @Test
  void aKilledProcessIsAnErrorAtOnce() {
    try (RankProcesses processes = RankProcesses.start(2, 120, Rank.class, "wait for the killed")) {
      long deadline = System.nanoTime() + 150_000_000_000L;
      while (!(processes.output(0).contains("ready") && processes.output(1).contains("ready"))) {
        assertThat(System.nanoTime()).isLessThan(deadline);
        Thread.onSpinWait();
      }
      long start = System.nanoTime();
      processes.kill(1);
      List<RankProcesses.Result> results = processes.await(60);
      assertThat((System.nanoTime() - start) / 1e9).isLessThan(30);
      assertThat(results.get(1).exitCode()).isEqualTo(137);
      assertThat(results.get(0).exitCode()).as(results.get(0).output()).isZero();
      assertThat(results.get(0).lines(SAID).get(1))
          .startsWith("Cannot complete barrier #1 (rank 0 of 2, after ")
          .contains("aborted by the store: lost rank 1 of 2, its connection");
    }
  }

  @Test
  void aProcessThatLeavesIsNamed() {
    List<RankProcesses.Result> results = RankProcesses.run(3, 120, Rank.class, "leave");
    assertThat(results.get(1).exitCode()).isEqualTo(3);
    for (int rank : new int[] {0, 2}) {
      assertThat(results.get(rank).lines(SAID).get(0))
          .contains("Cannot complete barrier #1 (rank " + rank + " of 3")
          .contains("lost rank 1 of 3");
    }
  }

  /**
   * Why {@link GlooCommunicator.Builder#verified()} exists: without it, sizes that differ end the
   * process that receives more than it expects.
   */
  @Test
  void differentSizesEndAProcessThatDoesNotVerify() {
    List<RankProcesses.Result> results = RankProcesses.run(2, 120, Rank.class, "mismatch");
    assertThat(results.get(0).exitCode()).as(results.get(0).output()).isEqualTo(134);
  }
}
