package io.sparktrainer.strategy.ddp;

import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.torch.DType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;
import org.bytedeco.pytorch.Tensor;

/** Which parameters share a bucket, and in which order the buckets are reduced. */
final class BucketLayout {
  private static final long FIRST_BUCKET_BYTES = 1L << 20;
  private static final long BUCKET_BYTES = 25L << 20;

  private final List<BucketAssignment.Gradient> gradients;
  private final List<Long> limits;

  BucketLayout(List<Tensor> parameters, DdpOptions options) {
    this.gradients = parameters.stream().map(BucketLayout::gradient).toList();
    this.limits =
        options.bucketCapMb() == null
            ? List.of(FIRST_BUCKET_BYTES, BUCKET_BYTES)
            : List.of((long) (options.bucketCapMb() * (1 << 20)));
  }

  private static BucketAssignment.Gradient gradient(Tensor parameter) {
    DType dtype = DType.of(parameter);
    return new BucketAssignment.Gradient(parameter.numel() * dtype.bytes(), dtype, false);
  }

  /** One bucket per type, for the first step, whose order of arrival is not known yet. */
  List<List<Integer>> single() {
    return assign(inOrderOfRegistration(), List.of(Long.MAX_VALUE));
  }

  /** For good, where the order of arrival may change: the reverse of the order of registration. */
  List<List<Integer>> reversed() {
    List<List<Integer>> buckets = new ArrayList<>(assign(inOrderOfRegistration(), limits));
    Collections.reverse(buckets);
    return buckets;
  }

  /** By order of arrival; parameters that are not in {@code order} are in no bucket. */
  List<List<Integer>> arriving(List<Integer> order) {
    int[] placeOf = new int[gradients.size()];
    for (int place = 0; place < order.size(); place++) {
      placeOf[order.get(place)] = place;
    }
    List<List<Integer>> buckets = new ArrayList<>(assign(order, limits));
    // A bucket is full when its last gradient arrives; with several types that is not the order of
    // their first ones.
    buckets.sort(Comparator.comparing(bucket -> placeOf[bucket.get(bucket.size() - 1)]));
    return buckets;
  }

  private List<Integer> inOrderOfRegistration() {
    return IntStream.range(0, gradients.size()).boxed().toList();
  }

  private List<List<Integer>> assign(List<Integer> order, List<Long> bucketLimits) {
    List<BucketAssignment.Gradient> ordered = order.stream().map(gradients::get).toList();
    return BucketAssignment.assign(ordered, bucketLimits).stream()
        .map(places -> places.stream().map(order::get).toList())
        .toList();
  }
}
