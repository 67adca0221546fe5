package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.DataPtr;
import org.bytedeco.pytorch.Device;
import org.bytedeco.pytorch.StorageImpl;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A flat tensor whose memory comes from a pool and goes back there, while the tensor itself, views
 * of it, and graphs that saved such views stay what they are. All of them share one libtorch
 * storage, and only the address in it changes.
 *
 * <p>Writing through {@link #tensor()} does not raise the version counters of parameters that were
 * set to its views, so a graph that saved them stays usable when their values are restored.
 *
 * <p>Without memory the storage's size is zero and its address stays that of the buffer it had
 * last, which the pool keeps readable: a stray read finds wrong numbers but doesn't end the JVM.
 */
final class LoanedTensor implements AutoCloseable {
  private final BufferPool pool;
  private final DType dtype;
  private final long numel;
  private final Tensor tensor; // [numel]
  private final StorageImpl storage;
  private final Device device;
  private BufferPool.@Nullable Buffer buffer;

  /**
   * A tensor of {@code numel} elements. It has memory of its own at first, because libtorch makes
   * no view of a tensor without; {@link #surrender} frees it once the views are made.
   */
  LoanedTensor(BufferPool pool, DType dtype, long numel) {
    this.pool = pool;
    this.dtype = dtype;
    this.numel = numel;
    this.device = NativeScope.keep(pool.device().toNative());
    this.tensor = NativeScope.keep(Tensors.empty(dtype, pool.device(), numel));
    this.storage = tensor.storage().unsafeGetStorageImpl();
  }

  /** Frees the memory it was made with; from now on it only has what it borrows. */
  void surrender() {
    try (var scope = NativeScope.open()) {
      pointTo(new DataPtr(), 0);
    }
  }

  private void pointTo(DataPtr address, long bytes) {
    storage.set_data_ptr_noswap(address);
    storage.set_nbytes(bytes);
  }

  /** The tensor [numel]; its elements may only be touched while it has memory. */
  Tensor tensor() {
    return tensor;
  }

  DType dtype() {
    return dtype;
  }

  long bytes() {
    return numel * dtype.bytes();
  }

  boolean hasMemory() {
    return buffer != null;
  }

  /** Gets memory, with undefined content. */
  void acquire() {
    if (buffer != null) {
      throw new IllegalStateException("Cannot lend memory to a tensor twice.");
    }
    BufferPool.Buffer taken = pool.take(bytes());
    try (var scope = NativeScope.open()) {
      pointTo(new DataPtr(taken.address(), device), bytes());
    }
    buffer = taken;
  }

  /** What a gather into the memory has to wait for: the end of its last use. */
  CudaStream.@Nullable Mark unused() {
    return buffer == null ? null : buffer.unused();
  }

  /** The same elements as a tensor that owns their memory, for collectives. */
  Tensor owned() {
    if (buffer == null) {
      throw new IllegalStateException("Cannot hand over a tensor that has no memory.");
    }
    return buffer.as(dtype, numel);
  }

  /** Gives the memory back, if there is any. */
  void release() {
    if (buffer != null) {
      storage.set_nbytes(0);
      pool.giveBack(buffer);
      buffer = null;
    }
  }

  @Override
  public void close() {
    release();
    try (var scope = NativeScope.open()) {
      pointTo(new DataPtr(), 0);
    }
    tensor.close();
    device.close();
  }
}
