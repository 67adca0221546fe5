package io.sparktrainer.comm;

import static io.sparktrainer.comm.NcclChecks.run;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/** What becomes of NCCL's collectives that do not end well: parts of {@link NcclChecks}. */
final class NcclFailureChecks {
  private NcclFailureChecks() {}

  /** Without a store, the others meet the abort in the time-out, and their devices are freed. */
  static void abort() {
    run(
        2,
        1,
        group -> {
          group.barrier().await();
          if (group.rank() == 0) {
            group.abort("loss is NaN");
            group.abort("later");
            assertThatThrownBy(group::barrier)
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("aborted by rank 0 of 2: loss is NaN");
          } else {
            assertThatThrownBy(() -> group.barrier().await())
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("barrier #1 did not end within 1 s");
          }
        });
  }

  static void late() {
    run(
        2,
        1,
        group -> {
          if (group.rank() == 0) {
            assertThatThrownBy(() -> group.barrier().await())
                .isInstanceOf(CollectiveException.class)
                .hasMessageStartingWith("Cannot complete barrier #0 (rank 0 of 2, after 1.")
                .hasMessageContaining(
                    "rank 0 of 2: barrier #0 did not end within 1 s. Ranks that make another call,"
                        + " or with other sizes, wait for ever: see their logs");
          }
        });
  }

  /**
   * Nobody waits on the host when the collective is late: the device is freed, the group's next
   * calls throw, and what was read meanwhile is refused.
   */
  static void lateAfterAwait() {
    run(
        2,
        1,
        group -> {
          if (group.rank() == 1) {
            return;
          }
          String late =
              "aborted by rank 0 of 2: all-reduce #0 of float32[1], sum did not end within 1 s.";
          try (var scope = NativeScope.open();
              CudaStream computing = CudaStream.open(Device.CPU);
              var current = computing.makeCurrent()) {
            CollectiveHandle handle = group.allReduce(Tensors.of(new float[] {1}, 1), ReduceOp.SUM);
            handle.await();
            group.requireIntact();
            CudaStream.Mark step = computing.mark();
            while (!step.isReached()) {
              Thread.onSpinWait();
            }
            step.release();
            assertThatThrownBy(group::requireIntact)
                .isInstanceOf(CollectiveException.class)
                .hasMessageStartingWith("Cannot use the results of collectives: the group was ")
                .hasMessageContaining(late)
                .hasMessageEndingWith("see their logs, or raise the time-out (rank 0 of 2).");
            assertThatThrownBy(handle::await)
                .isInstanceOf(CollectiveException.class)
                .hasMessageStartingWith("Cannot complete all-reduce #0 of float32[1], sum (rank 0")
                .hasMessageContaining(late);
            assertThatThrownBy(group::barrier)
                .isInstanceOf(CollectiveException.class)
                .hasMessageStartingWith("Cannot start barrier #1: ")
                .hasMessageContaining(late);
          }
        });
  }

  static void different() {
    run(
        2,
        1,
        group -> {
          try (var scope = NativeScope.open()) {
            Tensor tensor = Tensors.zeros(DType.FLOAT32, Device.CPU, group.rank() + 1);
            CollectiveHandle handle = group.allReduce(tensor, ReduceOp.SUM);
            assertThatThrownBy(handle::await)
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("did not end within 1 s");
            assertThatThrownBy(handle::await).hasMessageContaining("did not end within 1 s");
            assertThat(handle.isDone()).isTrue();
          }
        });
  }

  static void missingRank() {
    assertThatThrownBy(() -> NcclRendezvous.connect(NcclId.create(), 0, 2, Device.CPU, 1))
        .isInstanceOf(CollectiveException.class)
        .hasMessageMatching(
            "(?s)Cannot connect the NCCL group on cpu \\(rank 0 of 2, after 1\\.. s\\): expected all"
                + " ranks within 1 s.*");
  }

  /** Lets {@code call} fail on rank 1; prints what each rank gets. */
  static void error(String call) {
    torch.set_env("STANDIN_NCCL_FAIL", call, true);
    torch.set_env("STANDIN_NCCL_RANK", "1", true);
    NcclId id = NcclId.create();
    RankThreads.run(
        2,
        place -> {
          String message = "none";
          try (Communicator group = NcclRendezvous.connect(id, place, Device.CPU)) {
            try {
              Communicator pair = group.subGroup("pair", 0, 1);
              assertThat(NcclDataChecks.sum(pair, 1)).isEqualTo(2);
              group.barrier().await();
            } catch (CollectiveException e) {
              group.abort(e.getMessage());
              throw e;
            }
          } catch (CollectiveException e) {
            message = e.getMessage();
          }
          System.out.println("rank " + place.rank() + " got: " + message);
        });
  }
}
