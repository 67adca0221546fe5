package io.sparktrainer.checkpoint;

import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.bytedeco.pytorch.Tensor;

/**
 * Tensors by name in the safetensors format (https://github.com/huggingface/safetensors), which
 * PyTorch and others read and write: the header's length, a JSON header, then every tensor's
 * elements, row-major, little-endian. Element types are those of {@link
 * io.sparktrainer.torch.DType}.
 */
public final class Safetensors {
  private static final int COPY_BYTES = 1 << 20;

  private Safetensors() {}

  /**
   * Writes {@code tensors} to a local file. The file appears whole or not at all: it is written
   * under another name beside it, forced to disk and renamed.
   *
   * @param tensors of any device and layout
   * @param metadata free text to store beside them
   * @throws IllegalArgumentException if a tensor cannot be stored; nothing is written then
   */
  public static void write(Path file, Map<String, Tensor> tensors, Map<String, String> metadata)
      throws IOException {
    SafetensorsHeader header = HeaderWriter.layOut(tensors, metadata);
    ByteBuffer start = HeaderWriter.encode(header);
    Path temporary = file.resolveSibling("." + file.getFileName() + "." + UUID.randomUUID());
    try {
      try (FileChannel channel =
          FileChannel.open(temporary, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
        write(header, start, tensors, bytes -> writeFully(channel, bytes));
        channel.force(true);
      }
      move(temporary, file);
    } finally {
      Files.deleteIfExists(temporary);
    }
  }

  private static void move(Path from, Path to) throws IOException {
    try {
      Files.move(from, to, StandardCopyOption.ATOMIC_MOVE);
    } catch (AtomicMoveNotSupportedException e) {
      Files.move(from, to, StandardCopyOption.REPLACE_EXISTING);
    }
  }

  /**
   * Writes {@code tensors} to {@code out}, such as a stream of a Hadoop file system; it is left
   * open.
   *
   * @param tensors of any device and layout
   * @param metadata free text to store beside them
   * @throws IllegalArgumentException if a tensor cannot be stored; nothing is written then
   */
  public static void write(
      OutputStream out, Map<String, Tensor> tensors, Map<String, String> metadata)
      throws IOException {
    SafetensorsHeader header = HeaderWriter.layOut(tensors, metadata);
    byte[] copy = new byte[COPY_BYTES];
    write(header, HeaderWriter.encode(header), tensors, bytes -> copy(bytes, out, copy));
    out.flush();
  }

  private static void write(
      SafetensorsHeader header, ByteBuffer start, Map<String, Tensor> tensors, Chunks.Action sink)
      throws IOException {
    sink.apply(start);
    Map<String, Tensor> byName = new HashMap<>(tensors);
    for (TensorEntry entry : header.byPosition()) {
      try (var scope = NativeScope.open()) {
        Tensor tensor = byName.get(entry.name());
        if (tensor != null) {
          Chunks.forEach(tensor.detach().cpu().contiguous(), sink);
        }
      }
    }
  }

  private static void writeFully(FileChannel channel, ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining()) {
      channel.write(bytes);
    }
  }

  private static void copy(ByteBuffer from, OutputStream to, byte[] buffer) throws IOException {
    while (from.hasRemaining()) {
      int count = Math.min(buffer.length, from.remaining());
      from.get(buffer, 0, count);
      to.write(buffer, 0, count);
    }
  }

  /**
   * Opens a local file and checks its header; tensors are read one by one, when asked for.
   *
   * @throws CorruptFileException if it is not a whole safetensors file
   * @throws IOException if it cannot be read
   */
  public static SafetensorsFile open(Path file) throws IOException {
    return SafetensorsFile.open(file);
  }

  /**
   * Reads all tensors of a local file, in the header's order.
   *
   * @return on the CPU, row-major, in the caller's scope
   * @throws CorruptFileException if it is not a whole safetensors file
   * @throws IOException if it cannot be read
   */
  public static Map<String, Tensor> read(Path file) throws IOException {
    try (SafetensorsFile open = open(file)) {
      Map<String, Tensor> tensors = new LinkedHashMap<>();
      for (String name : open.names()) {
        tensors.put(name, open.read(name));
      }
      return tensors;
    }
  }

  /**
   * Reads all tensors from a stream, such as one of a Hadoop file system, in the header's order.
   * The stream is read to the end of the last tensor and left open.
   *
   * @param source the stream's name, for messages
   * @return on the CPU, row-major, in the caller's scope
   * @throws CorruptFileException if it is not a whole safetensors file
   * @throws IOException if it cannot be read
   */
  public static Map<String, Tensor> read(InputStream in, String source) throws IOException {
    var reader = new HeaderReader(source);
    byte[] prefix = in.readNBytes(SafetensorsHeader.PREFIX_BYTES);
    requireAll(reader, SafetensorsHeader.PREFIX_BYTES, prefix.length, "the header's length");
    int length = reader.length(ByteBuffer.wrap(prefix).order(ByteOrder.LITTLE_ENDIAN).getLong());
    byte[] json = in.readNBytes(length);
    requireAll(reader, length, json.length, "the header");
    SafetensorsHeader header = reader.parse(json);
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    for (TensorEntry entry : header.entries().values()) {
      tensors.put(entry.name(), Tensors.empty(entry.dtype(), Device.CPU, entry.sizes()));
    }
    byte[] copy = new byte[COPY_BYTES];
    for (TensorEntry entry : header.byPosition()) {
      Tensor tensor = tensors.get(entry.name());
      if (tensor != null) {
        Chunks.forEach(tensor, piece -> copy(reader, entry, in, piece, copy));
      }
    }
    return tensors;
  }

  private static void copy(
      HeaderReader reader, TensorEntry entry, InputStream from, ByteBuffer to, byte[] buffer)
      throws IOException {
    while (to.hasRemaining()) {
      int wanted = Math.min(buffer.length, to.remaining());
      int count = from.readNBytes(buffer, 0, wanted);
      requireAll(reader, wanted, count, "tensor \"" + entry.name() + "\"");
      to.put(buffer, 0, count);
    }
  }

  private static void requireAll(HeaderReader reader, int expected, int got, String what)
      throws CorruptFileException {
    if (got < expected) {
      throw reader.corrupt("it ended within " + what + ". The file is cut short.");
    }
  }
}
