package io.sparktrainer.checkpoint;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.sparktrainer.torch.DType;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Parses and checks a safetensors header. Files come from anywhere, so everything that is read by
 * the header's word is checked first: every byte of the data belongs to exactly one tensor, and
 * each tensor has as many as its shape and type need.
 */
final class HeaderReader {
  private static final JsonMapper JSON =
      JsonMapper.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .build();

  private final String source;

  /**
   * @param source the file's name, for messages
   */
  HeaderReader(String source) {
    this.source = source;
  }

  /** The header's length, which the first eight bytes of a file say. */
  int length(long stated) throws CorruptFileException {
    if (stated < 2 || stated > SafetensorsHeader.MAX_BYTES) {
      throw corrupt(
          "expected a header of 2 to %d bytes, got %s. It may not be a safetensors file."
              .formatted(SafetensorsHeader.MAX_BYTES, Long.toUnsignedString(stated)));
    }
    return (int) stated;
  }

  SafetensorsHeader parse(byte[] json) throws IOException {
    JsonNode root = tree(json);
    Map<String, TensorEntry> entries = new LinkedHashMap<>();
    Map<String, String> metadata = Map.of();
    for (Map.Entry<String, JsonNode> field : root.properties()) {
      if (field.getKey().equals(SafetensorsHeader.METADATA)) {
        metadata = metadata(field.getValue());
      } else {
        entries.put(field.getKey(), entry(field.getKey(), field.getValue()));
      }
    }
    var header = new SafetensorsHeader(entries, metadata);
    requireNoGaps(header);
    return header;
  }

  private JsonNode tree(byte[] json) throws IOException {
    JsonNode root;
    try {
      root = JSON.readTree(json);
    } catch (JsonProcessingException e) {
      throw new CorruptFileException(
          prefix() + "its header is not valid JSON: " + e.getOriginalMessage() + ".", e);
    }
    if (!root.isObject()) {
      throw corrupt("expected its header to be a JSON object, got " + root.getNodeType() + ".");
    }
    return root;
  }

  private Map<String, String> metadata(JsonNode node) throws CorruptFileException {
    Map<String, String> metadata = new LinkedHashMap<>();
    for (Map.Entry<String, JsonNode> field : node.properties()) {
      if (!field.getValue().isTextual()) {
        throw corrupt(
            "expected text for __metadata__." + field.getKey() + ", got " + field.getValue() + ".");
      }
      metadata.put(field.getKey(), field.getValue().asText());
    }
    if (!node.isObject()) {
      throw corrupt("expected __metadata__ to be a JSON object, got " + node + ".");
    }
    return metadata;
  }

  private TensorEntry entry(String name, JsonNode node) throws CorruptFileException {
    DType dtype = ElementTypes.byName(node.path("dtype").asText());
    if (dtype == null) {
      throw corrupt(
          "expected tensor \"%s\" to have a dtype of %s, got %s."
              .formatted(name, ElementTypes.names(), node.path("dtype")));
    }
    List<Long> shape = numbers(name, "shape", node.path("shape"));
    List<Long> offsets = numbers(name, "data_offsets", node.path("data_offsets"));
    if (offsets.size() != 2 || offsets.get(0) > offsets.get(1)) {
      throw corrupt(
          "expected data_offsets [begin, end] of tensor \"%s\", got %s.".formatted(name, offsets));
    }
    long expected = bytes(name, dtype, shape);
    if (offsets.get(1) - offsets.get(0) != expected) {
      throw corrupt(
          "tensor \"%s\" of %s%s needs %d bytes, but its data_offsets %s hold %d."
              .formatted(name, dtype, shape, expected, offsets, offsets.get(1) - offsets.get(0)));
    }
    return new TensorEntry(name, dtype, shape, offsets.get(0), offsets.get(1));
  }

  private List<Long> numbers(String name, String field, JsonNode node) throws CorruptFileException {
    List<Long> numbers = new ArrayList<>();
    for (JsonNode element : node) {
      if (!element.isIntegralNumber() || !element.canConvertToLong() || element.longValue() < 0) {
        throw corrupt(
            "expected whole numbers from 0 as %s of tensor \"%s\", got %s."
                .formatted(field, name, node));
      }
      numbers.add(element.longValue());
    }
    if (!node.isArray()) {
      throw corrupt("expected a list as %s of tensor \"%s\", got %s.".formatted(field, name, node));
    }
    return numbers;
  }

  private long bytes(String name, DType dtype, List<Long> shape) throws CorruptFileException {
    try {
      long bytes = dtype.bytes();
      for (long size : shape) {
        bytes = Math.multiplyExact(bytes, size);
      }
      return bytes;
    } catch (ArithmeticException e) {
      throw new CorruptFileException(
          prefix() + "shape %s of tensor \"%s\" is too large.".formatted(shape, name), e);
    }
  }

  private void requireNoGaps(SafetensorsHeader header) throws CorruptFileException {
    long position = 0;
    String before = "the header";
    for (TensorEntry entry : header.byPosition()) {
      if (entry.begin() != position) {
        throw corrupt(
            "expected the data of tensor \"%s\" to begin where that of %s ends, at byte %d, got %d."
                .formatted(entry.name(), before, position, entry.begin()));
      }
      position = entry.end();
      before = "\"" + entry.name() + "\"";
    }
  }

  /**
   * @param got bytes after the header
   */
  void requireDataBytes(SafetensorsHeader header, long got) throws CorruptFileException {
    if (header.dataBytes() != got) {
      throw corrupt(
          "expected %d bytes of data after the header, got %d. %s"
              .formatted(
                  header.dataBytes(),
                  got,
                  got < header.dataBytes()
                      ? "The file is cut short."
                      : "Something was added to the file."));
    }
  }

  CorruptFileException corrupt(String what) {
    return new CorruptFileException(prefix() + what);
  }

  private String prefix() {
    return "Cannot read " + source + ": ";
  }
}
