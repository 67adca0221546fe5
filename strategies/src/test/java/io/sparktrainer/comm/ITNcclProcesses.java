package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.comm.testing.RankProcesses;
import io.sparktrainer.testing.StandIns;
import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** NCCL on stand-ins between processes, and what becomes of it when one is killed. */
@Timeout(400)
class ITNcclProcesses {
  private static final String SAID = "SAID ";

  /**
   * One rank; the arguments say whether it joins with the run's store, and whether rank 0 waits on
   * the host for what the other never does, or lets its device wait.
   */
  static final class Rank {
    private Rank() {}

    public static void main(String[] arguments) {
      StandIns.allow();
      Rendezvous place = RankProcesses.rendezvous(arguments);
      NcclId id = exchangeId(place);
      Communicator group =
          RankProcesses.arguments(arguments)[0].equals("store")
              ? NcclRendezvous.connect(id, place, Device.CPU)
              : NcclRendezvous.connect(
                  id, place.rank(), place.worldSize(), Device.CPU, place.timeoutSeconds());
      try (var scope = NativeScope.open();
          Communicator pair = group.subGroup("pair", 0, 1)) {
        Tensor tensor = Tensors.of(new float[] {group.rank() + 1, 1}, 2);
        group.allReduce(tensor, ReduceOp.SUM).await();
        pair.allReduce(tensor, ReduceOp.AVG).await();
        float[] sums = Tensors.toFloats(tensor);
        System.out.println(SAID + sums[0] + " " + sums[1]);
        waitForTheKilled(group, RankProcesses.arguments(arguments)[1].equals("device"));
      } catch (CollectiveException e) {
        System.out.println(SAID + e.getMessage());
        group.abort("failed");
      }
      group.close();
      System.out.println(SAID + "end");
    }

    /** Rank 0 makes the id, and all get it from the store once all are ready to connect. */
    private static NcclId exchangeId(Rendezvous place) {
      NcclLibrary.load();
      try (StoreClient store = StoreClient.connect(place, new AbortSignal())) {
        store.set("ready" + place.rank(), new byte[0]);
        for (int rank = 0; rank < place.worldSize(); rank++) {
          store.get("ready" + rank).join();
        }
        if (place.rank() == 0) {
          store.set("id", NcclId.create().toText().getBytes(StandardCharsets.US_ASCII));
        }
        return NcclId.parse(new String(store.get("id").join(), StandardCharsets.US_ASCII));
      }
    }

    private static void waitForTheKilled(Communicator group, boolean onDevice) {
      if (group.rank() == 0 && onDevice) {
        letTheDeviceWait(group);
        return;
      }
      CollectiveHandle barrier = group.rank() == 0 ? group.barrier() : null;
      System.out.println(SAID + "ready");
      if (barrier != null) {
        barrier.await();
        return;
      }
      try {
        Thread.currentThread().join();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }

    /** As a step does that reads its loss: await has long returned when the peer dies. */
    private static void letTheDeviceWait(Communicator group) {
      try (CudaStream computing = CudaStream.open(Device.CPU);
          var current = computing.makeCurrent()) {
        group.allReduce(Tensors.of(new float[] {1}, 1), ReduceOp.SUM).await();
        CudaStream.Mark step = computing.mark();
        System.out.println(SAID + "ready");
        while (!step.isReached()) {
          Thread.onSpinWait();
        }
        step.release();
        group.requireIntact();
      }
    }
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "store | host | 1 | 60 | Cannot complete barrier #1 (rank 0 of 2, after | aborted by the store: lost rank 1 of 2, its connection",
        "alone | device | 0 | 60 | Cannot use the results of collectives: the group was aborted by rank 0 of 2: NCCL lost the group: remote process exited or there was a network error | , in all-reduce #1 of float32[1], sum. See the other ranks' logs for what came first (rank 0 of 2).",
        "alone | host | 1 | 5 | Cannot complete barrier #1 (rank 0 of 2, after | barrier #1 did not end within 5 s",
      })
  void aKilledProcessIsAnErrorInTime(
      String meeting, String who, String deaf, int timeoutSeconds, String start, String message) {
    Map<String, String> environment = StandIns.environment(Map.of("STANDIN_NCCL_DEAF", deaf));
    try (RankProcesses processes =
        RankProcesses.start(2, timeoutSeconds, environment, Rank.class, meeting, who)) {
      long deadline = System.nanoTime() + 150_000_000_000L;
      while (!(processes.output(0).contains("ready") && processes.output(1).contains("ready"))) {
        assertThat(System.nanoTime()).as(processes.output(0)).isLessThan(deadline);
        Thread.onSpinWait();
      }
      processes.kill(1);
      List<RankProcesses.Result> results = processes.await(100);
      assertThat(results.get(1).exitCode()).isEqualTo(137);
      RankProcesses.Result left = results.get(0);
      assertThat(left.exitCode()).as(left.output()).isZero();
      assertThat(left.lines(SAID).get(0)).isEqualTo("3.0 2.0");
      assertThat(left.lines(SAID).get(2)).startsWith(start).contains(message);
      assertThat(left.lines(SAID).get(3)).isEqualTo("end");
    }
  }
}
