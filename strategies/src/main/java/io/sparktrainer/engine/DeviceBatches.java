package io.sparktrainer.engine;

import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.HostToDevice;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Batches of host memory on the GPU that computes: while one is in use the next is on its way, on a
 * stream of its own. On the CPU batches are used where they are.
 */
final class DeviceBatches implements BatchSource, AutoCloseable {
  private final BatchSource source;
  private final @Nullable HostToDevice copies;
  private @Nullable EpochIterator open;

  DeviceBatches(BatchSource source, Device device) {
    this.source = source;
    this.copies = device.isCuda() ? new HostToDevice(device) : null;
  }

  @Override
  public int batchesPerEpoch() {
    return source.batchesPerEpoch();
  }

  @Override
  public boolean isWeighted() {
    return source.isWeighted();
  }

  @Override
  public int batchRows() {
    return source.batchRows();
  }

  @Override
  public Iterator<TensorBatch> epoch(int epoch) {
    if (copies == null) {
      return source.epoch(epoch);
    }
    finish();
    open = new EpochIterator(source.epoch(epoch), copies);
    return open;
  }

  private void finish() {
    if (open != null) {
      open.close();
      open = null;
    }
  }

  @Override
  public void close() {
    finish();
    if (copies != null) {
      copies.close();
    }
  }

  private static final class EpochIterator implements Iterator<TensorBatch>, AutoCloseable {
    private final Iterator<TensorBatch> host;
    private final HostToDevice copies;
    private @Nullable Staged inUse;
    private @Nullable Staged coming;

    EpochIterator(Iterator<TensorBatch> host, HostToDevice copies) {
      this.host = host;
      this.copies = copies;
      this.coming = stage();
    }

    private @Nullable Staged stage() {
      if (!host.hasNext()) {
        return null;
      }
      try (var scope = NativeScope.open()) {
        TensorBatch batch = host.next();
        List<Tensor> tensors = new ArrayList<>(batch.inputs());
        tensors.add(batch.target());
        Tensor weight = batch.weight();
        if (weight != null) {
          tensors.add(weight);
        }
        return new Staged(copies.start(tensors), batch.inputs().size(), batch.rows());
      }
    }

    @Override
    public boolean hasNext() {
      return coming != null;
    }

    @Override
    public TensorBatch next() {
      if (coming == null) {
        throw new NoSuchElementException("Cannot read a batch: the epoch is over.");
      }
      if (inUse != null) {
        inUse.copy().close();
      }
      inUse = coming;
      coming = stage();
      return inUse.batch();
    }

    @Override
    public void close() {
      if (inUse != null) {
        inUse.copy().close();
        inUse = null;
      }
      if (coming != null) {
        coming.copy().close();
        coming = null;
      }
    }
  }

  /** A batch that was sent off. */
  private record Staged(HostToDevice.Copy copy, int inputs, int rows) {
    TensorBatch batch() {
      List<Tensor> tensors = copy.tensors();
      return new TensorBatch(
          tensors.subList(0, inputs),
          tensors.get(inputs),
          tensors.size() > inputs + 1 ? tensors.get(inputs + 1) : null,
          rows);
    }
  }
}
