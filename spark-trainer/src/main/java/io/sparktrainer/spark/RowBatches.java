package io.sparktrainer.spark;

import io.sparktrainer.data.Batch;
import io.sparktrainer.data.BatchReader;
import io.sparktrainer.data.EpochPlan;
import io.sparktrainer.data.RankShare;
import io.sparktrainer.data.TensorBuffer;
import io.sparktrainer.engine.BatchSource;
import io.sparktrainer.engine.TensorBatch;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A rank's rows as tensors over the memory that holds them, without a copy. Batches without rows,
 * which a rank with a small share of validation rows has, are left out.
 */
final class RowBatches implements BatchSource, AutoCloseable {
  /** What a training without a label compares with: nothing. */
  private static final long NO_VALUES = 0;

  private final RankShare share;
  private final int batches;
  private @Nullable BatchReader open;

  RowBatches(RankShare share, int rank) {
    this.share = share;
    EpochPlan plan = share.plan();
    int filled = 0;
    for (long step = 0; step < plan.steps(); step++) {
      filled += plan.batchRows(rank, step) > 0 ? 1 : 0;
    }
    this.batches = filled;
  }

  @Override
  public int batchesPerEpoch() {
    return batches;
  }

  @Override
  public boolean isWeighted() {
    return share.schema().weight() != null;
  }

  @Override
  public int batchRows() {
    return share.plan().batchRows();
  }

  @Override
  public Iterator<TensorBatch> epoch(int epoch) {
    // The last batch of an epoch is in use until the next epoch is asked for.
    close();
    BatchReader reader = share.epoch(epoch);
    open = reader;
    return new EpochIterator(reader);
  }

  @Override
  public void close() {
    if (open != null) {
      open.close();
      open = null;
    }
  }

  private static final class EpochIterator implements Iterator<TensorBatch> {
    private final BatchReader reader;
    private @Nullable Batch next;

    EpochIterator(BatchReader reader) {
      this.reader = reader;
    }

    @Override
    public boolean hasNext() {
      while (next == null && reader.hasNext()) {
        Batch candidate = reader.next();
        next = candidate.rows() > 0 ? candidate : null;
      }
      return next != null;
    }

    @Override
    public TensorBatch next() {
      if (!hasNext() || next == null) {
        throw new NoSuchElementException("Cannot read a batch: the epoch is over.");
      }
      Batch batch = next;
      next = null;
      List<Tensor> inputs = new ArrayList<>();
      batch.inputs().forEach(input -> inputs.add(tensor(input)));
      TensorBuffer label = batch.label();
      TensorBuffer weight = batch.weight();
      return new TensorBatch(
          inputs,
          label == null
              ? Tensors.empty(DType.FLOAT32, Device.CPU, batch.rows(), NO_VALUES)
              : tensor(label),
          weight == null ? null : tensor(weight),
          batch.rows());
    }

    private static Tensor tensor(TensorBuffer buffer) {
      return Tensors.wrap(
          buffer.data(), DType.valueOf(buffer.spec().type().name()), buffer.shape());
    }
  }
}
