package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What is refused before native code sees it; a group of one checks as larger groups do. */
class TestCollectiveChecks {
  private final Communicator group = new LocalCommunicator();
  private NativeScope scope;

  @BeforeEach
  void open() {
    scope = NativeScope.open();
  }

  @AfterEach
  void close() {
    scope.close();
  }

  private static Tensor zeros(DType dtype, long... shape) {
    return Tensors.zeros(dtype, Device.CPU, shape);
  }

  @Test
  void refusesUndefinedTensors() {
    assertThatThrownBy(() -> group.allReduce(new Tensor(), ReduceOp.SUM))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot all-reduce a tensor: expected a defined one, got none.");
  }

  @Test
  void refusesTensorsWithGaps() {
    assertThatThrownBy(() -> group.broadcast(zeros(DType.FLOAT32, 2, 3).t(), 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a dense, contiguous one on the CPU")
        .hasMessageContaining("float32[3, 2] on cpu (not contiguous)");
  }

  @Test
  void refusesTypesThatCannotBeReduced() {
    assertThatThrownBy(() -> group.allReduce(zeros(DType.BOOL, 2), ReduceOp.MAX))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot all-reduce booleans: expected numbers, got bool[2]");
    assertThatThrownBy(() -> group.allReduce(zeros(DType.INT64, 2), ReduceOp.AVG))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot average integers: expected a floating-point tensor");
    assertThatThrownBy(() -> group.broadcast(zeros(DType.INT16, 2), 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Gloo has no int16");
  }

  @Test
  void refusesSizesAndTypesThatDoNotFit() {
    assertThatThrownBy(
            () ->
                group.reduceScatter(zeros(DType.FLOAT32, 2), zeros(DType.FLOAT32, 3), ReduceOp.SUM))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot reduce-scatter: expected input of 1 x the elements of output (world size 1),"
                + " got input float32[3] on cpu and output float32[2] on cpu.");
    assertThatThrownBy(() -> group.allGather(zeros(DType.FLOAT32, 2), zeros(DType.FLOAT64, 2)))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected output and input of one element type");
  }

  @Test
  void refusesRootsOutsideTheGroup() {
    assertThatThrownBy(() -> group.broadcast(zeros(DType.FLOAT32, 2), 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot broadcast: expected a root in 0..0, got 1 (rank 0 of 1).");
  }

  @Test
  void refusesDivisionsThatMakeNoSense() {
    assertThatThrownBy(() -> group.subGroup("shard", 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected ascending ranks in 0..0 with 0 among them, got [1]");
    assertThat(group.subGroup("shard", 0).worldSize()).isEqualTo(1);
    assertThatThrownBy(() -> group.subGroup("shard", 0))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a name not used before in this group");
  }

  @Test
  void refusedCallsAreNotCounted() {
    CollectiveCounts before = group.counts();
    group.allReduce(zeros(DType.FLOAT32, 5), ReduceOp.SUM).await();
    assertThatThrownBy(() -> group.allReduce(zeros(DType.BOOL, 2), ReduceOp.MAX))
        .isInstanceOf(IllegalArgumentException.class);
    group.barrier().await();
    CollectiveCounts since = group.counts().since(before);
    assertThat(since.calls(Kind.ALL_REDUCE)).isEqualTo(1);
    assertThat(since.bytes(Kind.ALL_REDUCE)).isEqualTo(20);
    assertThat(since.calls(Kind.BARRIER)).isEqualTo(1);
    assertThat(since.calls(Kind.BROADCAST)).isZero();
  }

  @Test
  void endsAfterCloseAndAfterAbort() {
    group.close();
    group.close();
    assertThatThrownBy(group::barrier)
        .isInstanceOf(IllegalStateException.class)
        .hasMessage("Cannot start barrier #0: the communicator is closed (rank 0 of 1).");
    Communicator aborted = new LocalCommunicator();
    aborted.abort("loss is NaN");
    aborted.abort("later");
    assertThatThrownBy(aborted::barrier)
        .isInstanceOf(CollectiveException.class)
        .hasMessage(
            "Cannot start barrier #0: the group was aborted by rank 0 of 1: loss is NaN (rank 0 of"
                + " 1).");
  }
}
