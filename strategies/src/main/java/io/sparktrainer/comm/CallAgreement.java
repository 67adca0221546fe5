package io.sparktrainer.comm;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * The exchange of calls before a collective: a description of the same number of bytes from every
 * rank, whatever the call, so that ranks that differ still understand each other here.
 */
final class CallAgreement {
  // The longest description, with all numbers at their largest, has 90.
  private static final int BYTES = 128;

  private final Communicator group;
  private final CollectiveCall call;

  /** An all-gather that is neither counted nor checked, and waited for. */
  interface Gather {
    void run(CollectiveCall call, Tensor output, Tensor input);
  }

  CallAgreement(Communicator group, CollectiveCall call) {
    this.group = group;
    this.call = call;
  }

  /**
   * @throws CollectiveException on every rank if the calls differ
   */
  void require(Gather gather) {
    List<String> calls = exchange(gather);
    for (int rank = 1; rank < calls.size(); rank++) {
      if (!calls.get(rank).equals(calls.get(0))) {
        throw new CollectiveException(
            "Cannot start %s (rank %d of %d): expected the same call on every rank, got %s on rank 0 and %s on rank %d. Look for a branch that not all ranks take."
                .formatted(
                    call.title(),
                    group.rank(),
                    group.worldSize(),
                    calls.get(0),
                    calls.get(rank),
                    rank),
            null);
      }
    }
  }

  private List<String> exchange(Gather gather) {
    try (var scope = NativeScope.open()) {
      Tensor mine = Tensors.zeros(DType.UINT8, Device.CPU, BYTES);
      Tensors.bytes(mine).put(call.toString().getBytes(StandardCharsets.US_ASCII));
      Tensor all = Tensors.zeros(DType.UINT8, Device.CPU, (long) BYTES * group.worldSize());
      gather.run(call, all, mine);
      ByteBuffer gathered = Tensors.bytes(all);
      List<String> calls = new ArrayList<>();
      byte[] text = new byte[BYTES];
      for (int rank = 0; rank < group.worldSize(); rank++) {
        gathered.get(text);
        calls.add(new String(text, StandardCharsets.US_ASCII).replace("\0", ""));
      }
      return calls;
    }
  }
}
