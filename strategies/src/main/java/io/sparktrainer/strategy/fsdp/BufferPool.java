package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Device memory that gathered parameters and whole gradients take turns in. What was given back is
 * kept for the next taker: units of equal size then share two or three buffers, and the system
 * doesn't have to map and clear fresh pages for each gather. Memory is given up only by {@link
 * #close()}, so an address taken from the pool stays readable until then.
 */
final class BufferPool implements AutoCloseable {
  private final Device device;
  private final GatherStream gathers;
  private final TreeMap<Long, Deque<Buffer>> free = new TreeMap<>();
  private final List<Buffer> all = new ArrayList<>();
  private long lentBytes;
  private long peakLentBytes;
  private long allocatedBytes;

  BufferPool(Device device, GatherStream gathers) {
    this.device = device;
    this.gathers = gathers;
  }

  GatherStream gathers() {
    return gathers;
  }

  Device device() {
    return device;
  }

  /** A buffer of at least {@code bytes}, and at most a quarter more, with undefined content. */
  Buffer take(long bytes) {
    var fitting = free.ceilingEntry(bytes);
    Buffer buffer;
    if (fitting != null && fitting.getKey() <= bytes + bytes / 4) {
      buffer = fitting.getValue().pop();
      if (fitting.getValue().isEmpty()) {
        free.remove(fitting.getKey());
      }
    } else {
      buffer = new Buffer(Tensors.empty(DType.UINT8, device, bytes), bytes);
      buffer.unusedSince(gathers.computed());
      all.add(buffer);
      allocatedBytes += bytes;
    }
    lentBytes += buffer.bytes;
    peakLentBytes = Math.max(peakLentBytes, lentBytes);
    return buffer;
  }

  /**
   * Takes back what {@link #take} gave. On the processor the next taker gets what was used last,
   * which the caches still hold; on a device what was used first, which is free soonest.
   */
  void giveBack(Buffer buffer) {
    lentBytes -= buffer.bytes;
    buffer.unusedSince(gathers.computed());
    Deque<Buffer> same = free.computeIfAbsent(buffer.bytes, size -> new ArrayDeque<>());
    if (gathers.isBeside()) {
      same.add(buffer);
    } else {
      same.push(buffer);
    }
  }

  /** Bytes allocated so far: the most that was lent at a time, and what did not fit reuse. */
  long allocatedBytes() {
    return allocatedBytes;
  }

  /** Most bytes lent at a time. */
  long peakLentBytes() {
    return peakLentBytes;
  }

  @Override
  public void close() {
    all.forEach(Buffer::close);
    all.clear();
    free.clear();
    allocatedBytes = 0;
    lentBytes = 0;
  }

  /** One piece of memory. */
  static final class Buffer {
    private record View(DType dtype, long numel) {}

    private final Tensor memory; // uint8 [bytes]
    private final Pointer address;
    private final long bytes;
    private final Map<View, Tensor> views = new HashMap<>();
    private CudaStream.@Nullable Mark unused;

    private Buffer(Tensor memory, long bytes) {
      this.memory = NativeScope.keep(memory);
      this.address = memory.data_ptr();
      this.bytes = bytes;
    }

    /** What a gather into it has to wait for. */
    CudaStream.@Nullable Mark unused() {
      return unused;
    }

    private void unusedSince(CudaStream.@Nullable Mark mark) {
      if (unused != null) {
        unused.release();
      }
      unused = mark;
    }

    Pointer address() {
      return address;
    }

    /**
     * The first {@code numel} elements as a tensor that owns the memory. Collectives get this one:
     * native threads that are still in one after a failure then keep the memory alive.
     */
    Tensor as(DType dtype, long numel) {
      return views.computeIfAbsent(
          new View(dtype, numel),
          view -> {
            try (var scope = NativeScope.open()) {
              return NativeScope.keep(
                  memory.narrow(0, 0, numel * dtype.bytes()).view(dtype.scalarType()));
            }
          });
    }

    private void close() {
      unusedSince(null);
      views.values().forEach(Tensor::close);
      memory.close();
    }
  }
}
