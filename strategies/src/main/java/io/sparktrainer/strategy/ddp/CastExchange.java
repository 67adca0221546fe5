package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/** Sums buckets in their own type, or in a narrower one where compression asks for it. */
final class CastExchange extends BucketExchange {
  private final @Nullable DType wireType;
  private final Communicator communicator;

  CastExchange(GradientCompression compression, Communicator communicator) {
    this.wireType =
        compression instanceof GradientCompression.Bf16
            ? DType.BFLOAT16
            : compression instanceof GradientCompression.Fp16 ? DType.FLOAT16 : null;
    this.communicator = communicator;
  }

  @Override
  Exchange start(Bucket bucket) {
    boolean narrower = wireType != null && bucket.dtype().bytes() > wireType.bytes();
    if (wireType == null || !narrower) {
      return communicator.allReduce(bucket.flat(), ReduceOp.SUM)::await;
    }
    Tensor wire = NativeScope.keep(bucket.flat().to(wireType.scalarType()));
    CollectiveHandle handle = communicator.allReduce(wire, ReduceOp.SUM);
    return () -> {
      handle.await();
      bucket.flat().copy_(wire);
      wire.close();
    };
  }
}
