package io.sparktrainer.spark;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import java.util.concurrent.CountDownLatch;
import org.apache.spark.TaskContext;
import org.bytedeco.pytorch.Tensor;

/** Models that go wrong on one rank while they train. */
public final class FaultyModels {
  private FaultyModels() {}

  /** Linear; calls {@link #misbehave} in a training forward pass. */
  abstract static class Faulty extends Block {
    private final Linear fc;
    private int calls;

    Faulty(ModelShape shape) {
      this.fc = child("fc", new Linear(shape.inputValues(), shape.outputs()));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      calls++;
      if (calls == 5 && training()) {
        misbehave(TaskContext.getPartitionId());
      }
      return fc.call(inputs[0]);
    }

    abstract void misbehave(int rank);
  }

  /** Rank 1 throws. */
  public static final class ThrowsOnRankOne extends Faulty {
    public ThrowsOnRankOne(ModelShape shape) {
      super(shape);
    }

    @Override
    void misbehave(int rank) {
      if (rank == 1) {
        throw new IllegalStateException("the fuse blew");
      }
    }
  }

  /** Rank 1's process ends, as if the kernel had killed it. */
  public static final class KillsProcessOfRankOne extends Faulty {
    public KillsProcessOfRankOne(ModelShape shape) {
      super(shape);
    }

    @Override
    void misbehave(int rank) {
      if (rank == 1) {
        Runtime.getRuntime().halt(137);
      }
    }
  }

  /** Rank 1 waits until its thread is interrupted, so that rank 0 waits for it in a collective. */
  public static final class WaitsOnRankOne extends Faulty {
    static final CountDownLatch WAITING = new CountDownLatch(1);

    public WaitsOnRankOne(ModelShape shape) {
      super(shape);
    }

    @Override
    void misbehave(int rank) {
      if (rank == 1) {
        WAITING.countDown();
        try {
          new CountDownLatch(1).await();
        } catch (InterruptedException e) {
          Thread.currentThread().interrupt();
          throw new IllegalStateException("interrupted", e);
        }
      }
    }
  }

  /** Its shape depends on the rank. */
  public static final class DiffersByRank extends Block {
    private final Linear fc;

    public DiffersByRank(ModelShape shape) {
      this.fc =
          child(
              "fc",
              new Linear(shape.inputValues(), shape.outputs() + TaskContext.getPartitionId()));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return fc.call(inputs[0]);
    }
  }
}
