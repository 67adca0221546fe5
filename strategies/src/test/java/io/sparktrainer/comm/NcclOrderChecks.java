package io.sparktrainer.comm;

import static io.sparktrainer.comm.NcclChecks.TIMEOUT_SECONDS;
import static io.sparktrainer.comm.NcclChecks.run;
import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.testing.Gate;
import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.concurrent.CountDownLatch;
import org.bytedeco.cuda.global.cudart;
import org.bytedeco.pytorch.Tensor;

/**
 * In which order collectives and what is computed run on the device, and what the host waits for:
 * parts of {@link NcclChecks}. Each rank computes on a stream of its own, where gates hold the work
 * up and copies stand for computing.
 */
final class NcclOrderChecks {
  private NcclOrderChecks() {}

  private static Tensor number(float value) {
    return Tensors.of(new float[] {value}, 1);
  }

  private static float valueOf(Tensor tensor) {
    return Tensors.toFloats(tensor)[0];
  }

  /** Queues a copy of one number. */
  private static void copy(Tensor target, Tensor source, CudaStream stream) {
    int result =
        cudart.cudaMemcpyAsync(
            target.data_ptr(),
            source.data_ptr(),
            Float.BYTES,
            cudart.cudaMemcpyDefault,
            stream.handle());
    assertThat(result).isEqualTo(cudart.cudaSuccess);
  }

  /** Time enough for a collective that does not wait: others begin and end, beside. */
  private static void letTimePass(Communicator beside) {
    try (CudaStream stream = CudaStream.open(Device.CPU);
        var aside = stream.makeCurrent()) {
      for (int i = 0; i < 20; i++) {
        beside.barrier().await();
      }
    }
  }

  /** One of two ranks. */
  private interface Rank {
    /**
     * @param beside another group of the same ranks
     * @param computing the stream that this thread computes on
     */
    void run(Communicator group, Communicator beside, CudaStream computing)
        throws InterruptedException;
  }

  /** Runs rank 0, and rank 1 once {@code come} is counted down: nothing can end before that. */
  private static void withLateRank(CountDownLatch come, Rank rankZero, Rank rankOne) {
    run(
        2,
        TIMEOUT_SECONDS,
        group -> {
          try (var scope = NativeScope.open();
              Communicator beside = group.subGroup("beside", 0, 1);
              CudaStream computing = CudaStream.open(Device.CPU);
              var current = computing.makeCurrent()) {
            if (group.rank() == 0) {
              rankZero.run(group, beside, computing);
            } else {
              come.await();
              rankOne.run(group, beside, computing);
            }
          }
        });
  }

  /**
   * A collective takes what was computed before it, what is computed behind the wait takes its
   * result, and the host waits for neither. Without the wait the copy would not: the last part.
   */
  static void order() {
    CountDownLatch come = new CountDownLatch(1);
    CountDownLatch comeAgain = new CountDownLatch(1);
    withLateRank(
        come,
        (group, beside, computing) -> {
          Tensor tensor = number(0);
          Tensor seen = number(-1);
          try (Gate gate = Gate.on(computing)) {
            copy(tensor, number(5), computing);
            CollectiveHandle handle = group.allReduce(tensor, ReduceOp.SUM);
            handle.await();
            copy(seen, tensor, computing);
            CudaStream.Mark behind = computing.mark();
            come.countDown();
            letTimePass(beside);
            assertThat(handle.isDone()).isFalse(); // its input is not there yet
            assertThat(behind.isReached()).isFalse();
            gate.open();
            handle.awaitOnHost();
            assertThat(handle.isDone()).isTrue();
            Gate.waitFor(computing);
            assertThat(behind.isReached()).isTrue();
            behind.release();
            assertThat(valueOf(seen)).isEqualTo(12);
          }

          Tensor unawaited = number(5);
          CollectiveHandle other = group.allReduce(unawaited, ReduceOp.SUM);
          copy(seen, unawaited, computing);
          Gate.waitFor(computing);
          assertThat(other.isDone()).isFalse();
          assertThat(valueOf(seen)).isEqualTo(5);
          comeAgain.countDown();
          other.awaitOnHost();
          assertThat(valueOf(unawaited)).isEqualTo(12);
        },
        (group, beside, computing) -> {
          CollectiveHandle handle = group.allReduce(number(7), ReduceOp.SUM);
          letTimePass(beside);
          handle.awaitOnHost();
          comeAgain.await();
          group.allReduce(number(7), ReduceOp.SUM).awaitOnHost();
        });
  }

  /**
   * A collective that is started beside the computing stream, as fsdp's gathers are, runs while
   * that is held up. So a collective that did not follow what is computed would be seen, too.
   */
  static void overlap() {
    run(
        2,
        TIMEOUT_SECONDS,
        group -> {
          try (var scope = NativeScope.open();
              CudaStream computing = CudaStream.open(Device.CPU);
              CudaStream beside = CudaStream.open(Device.CPU);
              var current = computing.makeCurrent()) {
            Tensor shard = number(group.rank() + 1);
            Tensor whole = Tensors.zeros(DType.FLOAT32, Device.CPU, 2);
            Tensor seen = number(-1);
            try (Gate gate = Gate.on(computing)) {
              copy(shard, number(100), computing);
              CudaStream.Mark computed = computing.mark();
              CollectiveHandle gather;
              try (var aside = beside.makeCurrent()) {
                gather = group.allGather(whole, shard);
              }
              gather.await();
              copy(seen, whole.narrow(0, 1, 1), computing);
              gather.awaitOnHost();
              assertThat(computed.isReached()).isFalse();
              assertThat(Tensors.toFloats(whole)).containsExactly(1, 2);
              gate.open();
              Gate.waitFor(computing);
              assertThat(valueOf(seen)).isEqualTo(2);

              beside.follow(computed);
              try (var aside = beside.makeCurrent()) {
                group.allGather(whole, shard).awaitOnHost();
              }
              assertThat(Tensors.toFloats(whole)).containsExactly(100, 100);
              computed.release();
            }
          }
        });
  }

  /** Tensors are held until the caller's stream waits for the collective, or until its end. */
  static void memory() {
    CountDownLatch come = new CountDownLatch(1);
    withLateRank(
        come,
        (group, beside, computing) -> {
          Tensor awaited = number(1);
          Tensor forgotten = number(1);
          long alone = awaited.use_count();
          CollectiveHandle first = group.allReduce(awaited, ReduceOp.SUM);
          CollectiveHandle second = group.allReduce(forgotten, ReduceOp.SUM);
          assertThat(awaited.use_count()).isGreaterThan(alone);
          first.await();
          assertThat(awaited.use_count()).isEqualTo(alone);
          assertThat(first.isDone()).isFalse();
          assertThat(forgotten.use_count()).isGreaterThan(alone);
          come.countDown();
          second.awaitOnHost();
          assertThat(forgotten.use_count()).isEqualTo(alone);
        },
        (group, beside, computing) -> {
          group.allReduce(number(1), ReduceOp.SUM).await();
          group.allReduce(number(1), ReduceOp.SUM).await();
        });
  }
}
