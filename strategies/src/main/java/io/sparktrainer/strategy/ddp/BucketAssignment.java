package io.sparktrainer.strategy.ddp;

import io.sparktrainer.torch.DType;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/**
 * Which gradients share a bucket. Follows c10d's rule: one open bucket per type; a gradient is
 * added first, then the bucket is closed if it has reached its limit, so a bucket can exceed the
 * limit by almost one gradient; each type walks through the list of limits on its own and stays on
 * the last.
 */
final class BucketAssignment {
  /**
   * One gradient.
   *
   * @param bytes its size
   * @param dtype its element type; types never share a bucket
   * @param sparse whether it needs a bucket of its own
   */
  record Gradient(long bytes, DType dtype, boolean sparse) {}

  private BucketAssignment() {}

  /**
   * Indices into {@code gradients} for each bucket, buckets sorted by their smallest index.
   *
   * @param limits bytes at which the first, second, ... bucket of each type is closed; the last is
   *     for all further ones
   */
  static List<List<Integer>> assign(List<Gradient> gradients, List<Long> limits) {
    if (limits.isEmpty()) {
      throw new IllegalArgumentException("Cannot assign buckets: expected at least one limit.");
    }
    Map<DType, Open> open = new EnumMap<>(DType.class);
    Map<DType, Integer> closed = new EnumMap<>(DType.class);
    List<List<Integer>> buckets = new ArrayList<>();
    for (int i = 0; i < gradients.size(); i++) {
      Gradient gradient = gradients.get(i);
      if (gradient.sparse()) {
        buckets.add(List.of(i));
        continue;
      }
      Open bucket = open.computeIfAbsent(gradient.dtype(), key -> new Open());
      bucket.indices.add(i);
      bucket.bytes += gradient.bytes();
      int limit = Math.min(closed.getOrDefault(gradient.dtype(), 0), limits.size() - 1);
      if (bucket.bytes >= limits.get(limit)) {
        buckets.add(bucket.indices);
        open.remove(gradient.dtype());
        closed.merge(gradient.dtype(), 1, Integer::sum);
      }
    }
    open.values().forEach(bucket -> buckets.add(bucket.indices));
    buckets.sort(Comparator.comparing(indices -> indices.get(0)));
    return buckets;
  }

  private static final class Open {
    private final List<Integer> indices = new ArrayList<>();
    private long bytes;
  }
}
