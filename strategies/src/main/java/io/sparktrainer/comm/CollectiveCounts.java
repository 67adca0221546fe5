package io.sparktrainer.comm;

import java.util.EnumMap;
import java.util.Map;

/**
 * How often each collective was called on one rank, and with how many bytes.
 *
 * @param calls number of calls by kind; kinds never called are absent
 * @param bytes bytes of the largest tensor handed in, summed over the calls
 */
public record CollectiveCounts(Map<Kind, Long> calls, Map<Kind, Long> bytes) {
  /** Kinds of collectives. */
  public enum Kind {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    BARRIER
  }

  public CollectiveCounts {
    calls = Map.copyOf(calls);
    bytes = Map.copyOf(bytes);
  }

  public long calls(Kind kind) {
    return calls.getOrDefault(kind, 0L);
  }

  public long bytes(Kind kind) {
    return bytes.getOrDefault(kind, 0L);
  }

  /** What came since {@code earlier}. */
  public CollectiveCounts since(CollectiveCounts earlier) {
    Map<Kind, Long> callsSince = new EnumMap<>(Kind.class);
    Map<Kind, Long> bytesSince = new EnumMap<>(Kind.class);
    for (Kind kind : Kind.values()) {
      if (calls(kind) > earlier.calls(kind)) {
        callsSince.put(kind, calls(kind) - earlier.calls(kind));
        bytesSince.put(kind, bytes(kind) - earlier.bytes(kind));
      }
    }
    return new CollectiveCounts(callsSince, bytesSince);
  }
}
