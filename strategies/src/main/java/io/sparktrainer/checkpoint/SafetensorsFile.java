package io.sparktrainer.checkpoint;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/**
 * An open safetensors file. Opening reads and checks the header only; each tensor is read when it
 * is asked for, straight into its own memory. One thread at a time uses it.
 */
public final class SafetensorsFile implements AutoCloseable {
  private final HeaderReader reader;
  private final FileChannel channel;
  private final SafetensorsHeader header;
  private final long dataStart;

  private SafetensorsFile(Path path, FileChannel channel) throws IOException {
    this.reader = new HeaderReader(path.toString());
    this.channel = channel;
    if (channel.size() < SafetensorsHeader.PREFIX_BYTES) {
      throw reader.corrupt(
          "expected at least 8 bytes, got %d. It is not a safetensors file."
              .formatted(channel.size()));
    }
    ByteBuffer prefix = ByteBuffer.allocate(SafetensorsHeader.PREFIX_BYTES);
    readFully(prefix, 0);
    int length = reader.length(prefix.flip().order(ByteOrder.LITTLE_ENDIAN).getLong());
    this.dataStart = SafetensorsHeader.PREFIX_BYTES + (long) length;
    if (channel.size() < dataStart) {
      throw reader.corrupt(
          "expected a header of %d bytes, got %d bytes in all. The file is cut short, or not a safetensors file."
              .formatted(length, channel.size()));
    }
    ByteBuffer json = ByteBuffer.allocate(length);
    readFully(json, SafetensorsHeader.PREFIX_BYTES);
    this.header = reader.parse(json.array());
    reader.requireDataBytes(header, channel.size() - dataStart);
  }

  static SafetensorsFile open(Path path) throws IOException {
    FileChannel channel = FileChannel.open(path, StandardOpenOption.READ);
    try {
      return new SafetensorsFile(path, channel);
    } catch (IOException | RuntimeException e) {
      channel.close();
      throw e;
    }
  }

  /** Names of the tensors, in the header's order. */
  public Set<String> names() {
    return header.entries().keySet();
  }

  /** Free text stored beside the tensors. */
  public Map<String, String> metadata() {
    return header.metadata();
  }

  /**
   * @throws IllegalArgumentException if there is no such tensor
   */
  public DType dtype(String name) {
    return entry(name).dtype();
  }

  /**
   * @throws IllegalArgumentException if there is no such tensor
   */
  public long[] shape(String name) {
    return entry(name).sizes();
  }

  /**
   * Reads one tensor.
   *
   * @return on the CPU, row-major, in the caller's scope
   * @throws IllegalArgumentException if there is no such tensor
   * @throws IOException if the file cannot be read
   */
  public Tensor read(String name) throws IOException {
    TensorEntry entry = entry(name);
    Tensor tensor = Tensors.empty(entry.dtype(), Device.CPU, entry.sizes());
    fill(entry, tensor);
    return tensor;
  }

  /**
   * Reads one tensor into {@code target}, which may be on any device and of any layout and element
   * type; a graph that saved it can still be differentiated.
   *
   * @throws IllegalArgumentException if there is no such tensor, or of another shape
   * @throws IOException if the file cannot be read
   */
  public void readInto(String name, Tensor target) throws IOException {
    TensorEntry entry = entry(name);
    if (!Arrays.equals(entry.sizes(), Tensors.shape(target))) {
      throw new IllegalArgumentException(
          "Cannot read tensor \"%s\": expected shape %s, got %s in the file."
              .formatted(name, Arrays.toString(Tensors.shape(target)), entry.shape()));
    }
    try (var scope = NativeScope.open()) {
      Tensors.overwrite(target, read(name));
    }
  }

  private TensorEntry entry(String name) {
    TensorEntry entry = header.entries().get(name);
    if (entry == null) {
      throw new IllegalArgumentException(
          "Cannot read tensor \"%s\": the file has %s.".formatted(name, names()));
    }
    return entry;
  }

  private void fill(TensorEntry entry, Tensor tensor) throws IOException {
    long[] position = {dataStart + entry.begin()};
    Chunks.forEach(
        tensor,
        piece -> {
          int size = piece.remaining();
          readFully(piece, position[0]);
          position[0] += size;
        });
  }

  private void readFully(ByteBuffer target, long position) throws IOException {
    long at = position;
    while (target.hasRemaining()) {
      int count = channel.read(target, at);
      if (count < 0) {
        throw reader.corrupt("it ended at byte " + at + ". The file was cut while being read.");
      }
      at += count;
    }
  }

  @Override
  public void close() throws IOException {
    channel.close();
  }
}
