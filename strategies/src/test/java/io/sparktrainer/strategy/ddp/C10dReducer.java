package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Rendezvous;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.chrono.Milliseconds;
import org.bytedeco.pytorch.BackendOptional;
import org.bytedeco.pytorch.BoolVector;
import org.bytedeco.pytorch.FileStore;
import org.bytedeco.pytorch.GlooDeviceVector;
import org.bytedeco.pytorch.GradBucket;
import org.bytedeco.pytorch.ProcessGroup;
import org.bytedeco.pytorch.ProcessGroupGloo;
import org.bytedeco.pytorch.Reducer;
import org.bytedeco.pytorch.SizeTStringMap;
import org.bytedeco.pytorch.SizeTVector;
import org.bytedeco.pytorch.SizeTVectorVector;
import org.bytedeco.pytorch.Store;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;

/** PyTorch's own reducer over a Gloo group of its own, driven the way its Python wrapper does. */
final class C10dReducer implements AutoCloseable {
  private final List<Tensor> parameters;
  private final List<Pointer> owned = new ArrayList<>();
  private final Reducer reducer;
  private final Path file;

  /**
   * Joins a group beside the one of {@code rendezvous} and registers the reducer's hooks.
   *
   * @param capBytes limit of every bucket; null for PyTorch's 1 MiB, then 25 MiB
   */
  C10dReducer(
      Rendezvous rendezvous,
      String group,
      List<Tensor> parameters,
      @org.jspecify.annotations.Nullable Long capBytes,
      boolean gradientAsBucketView) {
    this.parameters = parameters;
    // All ranks are on this machine, so a file can be their store.
    this.file =
        Path.of(System.getProperty("java.io.tmpdir"), "c10d-" + rendezvous.secret() + group);
    try (var scope = NativeScope.open()) {
      BoolVector sparse = new BoolVector(parameters.size());
      for (int i = 0; i < parameters.size(); i++) {
        sparse.put(i, false);
      }
      reducer =
          own(
              new Reducer(
                  new TensorVector(parameters.toArray(Tensor[]::new)),
                  oneBucketPerType(),
                  connect(rendezvous),
                  sparse,
                  capBytes == null ? torch.kDefaultBucketBytesCap() : capBytes,
                  false,
                  gradientAsBucketView,
                  new SizeTStringMap(),
                  capBytes == null ? torch.kDefaultFirstBucketBytes() : capBytes,
                  false,
                  false));
    }
  }

  private ProcessGroup connect(Rendezvous rendezvous) {
    // A store made by new has no native owner that could be shared; a clone has.
    Store store = own(own(new FileStore(file.toString(), -1)).clone());
    ProcessGroupGloo.Options options =
        ProcessGroupGloo.Options.create(new Milliseconds(rendezvous.timeoutSeconds() * 1000L));
    options.devices(
        new GlooDeviceVector(ProcessGroupGloo.createDeviceForHostname(rendezvous.host())));
    ProcessGroupGloo gloo =
        own(new ProcessGroupGloo(store, rendezvous.rank(), rendezvous.worldSize(), options));
    ProcessGroup group = own(new ProcessGroup(rendezvous.rank(), rendezvous.worldSize()));
    group.setBackend(
        torch.DeviceType.CPU, ProcessGroup.BackendType.GLOO, own(new BackendOptional(gloo)));
    group.setDefaultBackend(ProcessGroup.BackendType.GLOO);
    return group;
  }

  private SizeTVectorVector oneBucketPerType() {
    Map<DType, List<Long>> byType = new LinkedHashMap<>();
    for (int i = 0; i < parameters.size(); i++) {
      byType.computeIfAbsent(DType.of(parameters.get(i)), key -> new ArrayList<>()).add((long) i);
    }
    SizeTVectorVector buckets = new SizeTVectorVector(byType.size());
    int next = 0;
    for (List<Long> indices : byType.values()) {
      SizeTVector vector = new SizeTVector();
      vector.put(indices.stream().mapToLong(Long::longValue).toArray());
      buckets.put(next++, vector);
    }
    return buckets;
  }

  private <P extends Pointer> P own(P pointer) {
    owned.add(NativeScope.keep(pointer));
    return pointer;
  }

  /** What the wrapper does before the model runs; true if the buckets were rebuilt. */
  boolean beforeForward() {
    reducer.prepare_for_forward();
    return reducer.rebuild_buckets();
  }

  void backward(Tensor loss) {
    try (var scope = NativeScope.open()) {
      reducer.prepare_for_backward(new TensorVector());
      loss.backward();
    }
  }

  /** Parameter numbers of each bucket, in the order in which buckets are reduced. */
  List<List<Integer>> bucketIndices() {
    try (var scope = NativeScope.open()) {
      GradBucket buckets = reducer.get_grad_buckets(true);
      List<List<Integer>> result = new ArrayList<>();
      for (long b = 0; b < Math.max(1, buckets.limit()); b++) {
        TensorVector inBucket = buckets.getPointer(GradBucket.class, b).getParameters();
        List<Integer> indices = new ArrayList<>();
        for (long i = 0; i < inBucket.size(); i++) {
          indices.add(indexOf(inBucket.get(i)));
        }
        result.add(indices);
      }
      return result;
    }
  }

  private int indexOf(Tensor parameter) {
    long address = parameter.unsafeGetTensorImpl().address();
    for (int i = 0; i < parameters.size(); i++) {
      if (parameters.get(i).unsafeGetTensorImpl().address() == address) {
        return i;
      }
    }
    throw new AssertionError("A bucket holds a parameter that is none of the model's.");
  }

  @Override
  public void close() {
    reducer.remove_autograd_hooks();
    for (int i = owned.size() - 1; i >= 0; i--) {
      owned.get(i).close();
    }
    file.toFile().delete();
  }
}
