package io.sparktrainer.checkpoint;

import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What a safetensors file says about its tensors, in the order of the file's header.
 *
 * @param metadata the free text beside the tensors
 */
record SafetensorsHeader(Map<String, TensorEntry> entries, Map<String, String> metadata) {
  /** The header's key for free text; no tensor can be called so. */
  static final String METADATA = "__metadata__";

  /** The reference implementation reads no longer header, so none is written or read here. */
  static final long MAX_BYTES = 100_000_000;

  /** Bytes of the number before the header that says how long the header is. */
  static final int PREFIX_BYTES = Long.BYTES;

  SafetensorsHeader {
    entries = Collections.unmodifiableMap(new LinkedHashMap<>(entries));
    metadata = Collections.unmodifiableMap(new LinkedHashMap<>(metadata));
  }

  /** The entries in the order of their data. */
  List<TensorEntry> byPosition() {
    return entries.values().stream()
        .sorted(Comparator.comparingLong(TensorEntry::begin).thenComparingLong(TensorEntry::end))
        .toList();
  }

  /** Bytes after the header. */
  long dataBytes() {
    return entries.values().stream().mapToLong(TensorEntry::end).max().orElse(0);
  }
}
