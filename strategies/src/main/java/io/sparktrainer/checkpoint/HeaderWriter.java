package io.sparktrainer.checkpoint;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** Lays tensors out in a file and writes the header that says so. */
final class HeaderWriter {
  private static final int ALIGNMENT = 8;

  private HeaderWriter() {}

  /**
   * Gives every tensor its place: the widest element types first, so that each tensor is aligned to
   * its elements.
   *
   * @throws IllegalArgumentException if a tensor has no content, a type that the format does not
   *     know, or a reserved name
   */
  static SafetensorsHeader layOut(Map<String, Tensor> tensors, Map<String, String> metadata) {
    Map<String, TensorEntry> placed = new LinkedHashMap<>();
    long position = 0;
    for (TensorEntry entry : byWidth(tensors)) {
      long end = position + entry.end();
      placed.put(
          entry.name(), new TensorEntry(entry.name(), entry.dtype(), entry.shape(), position, end));
      position = end;
    }
    Map<String, TensorEntry> inGivenOrder = new LinkedHashMap<>();
    for (String name : tensors.keySet()) {
      TensorEntry entry = placed.get(name);
      if (entry != null) {
        inGivenOrder.put(name, entry);
      }
    }
    return new SafetensorsHeader(inGivenOrder, metadata);
  }

  /** Entries as if each began at byte 0. */
  private static List<TensorEntry> byWidth(Map<String, Tensor> tensors) {
    return tensors.entrySet().stream()
        .map(entry -> describe(entry.getKey(), entry.getValue()))
        .sorted(Comparator.comparingInt((TensorEntry entry) -> -entry.dtype().bytes()))
        .toList();
  }

  private static TensorEntry describe(String name, Tensor tensor) {
    if (name.equals(SafetensorsHeader.METADATA)) {
      throw new IllegalArgumentException(
          "Cannot write a tensor called \"%s\": the name is the format's own.".formatted(name));
    }
    if (!tensor.defined()) {
      throw new IllegalArgumentException(
          "Cannot write tensor \"%s\": expected a tensor with content, got an undefined one."
              .formatted(name));
    }
    DType dtype = DType.of(tensor);
    List<Long> shape = Arrays.stream(Tensors.shape(tensor)).boxed().toList();
    return new TensorEntry(name, dtype, shape, 0, tensor.numel() * dtype.bytes());
  }

  /** Length and header, as a file begins; the data that follows is aligned. */
  static ByteBuffer encode(SafetensorsHeader header) throws IOException {
    var json = new ByteArrayOutputStream();
    try (JsonGenerator out = new JsonFactory().createGenerator(json)) {
      write(header, out);
    }
    while (json.size() % ALIGNMENT != 0) {
      json.write(' ');
    }
    if (json.size() > SafetensorsHeader.MAX_BYTES) {
      throw new IllegalArgumentException(
          "Cannot write %d tensors: their header has %d bytes, and readers take at most %d."
              .formatted(header.entries().size(), json.size(), SafetensorsHeader.MAX_BYTES));
    }
    return ByteBuffer.allocate(SafetensorsHeader.PREFIX_BYTES + json.size())
        .order(ByteOrder.LITTLE_ENDIAN)
        .putLong(json.size())
        .put(json.toByteArray())
        .flip();
  }

  private static void write(SafetensorsHeader header, JsonGenerator out) throws IOException {
    out.writeStartObject();
    if (!header.metadata().isEmpty()) {
      out.writeObjectFieldStart(SafetensorsHeader.METADATA);
      for (Map.Entry<String, String> entry : header.metadata().entrySet()) {
        out.writeStringField(entry.getKey(), entry.getValue());
      }
      out.writeEndObject();
    }
    for (TensorEntry entry : header.entries().values()) {
      out.writeObjectFieldStart(entry.name());
      out.writeStringField("dtype", ElementTypes.nameOf(entry.dtype()));
      out.writeFieldName("shape");
      out.writeArray(entry.sizes(), 0, entry.shape().size());
      out.writeFieldName("data_offsets");
      out.writeArray(new long[] {entry.begin(), entry.end()}, 0, 2);
      out.writeEndObject();
    }
    out.writeEndObject();
  }
}
