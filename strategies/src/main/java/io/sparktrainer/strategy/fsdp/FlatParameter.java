package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.ParameterShard;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/**
 * The parameters of one unit that have the same element type and were both trainable or both frozen
 * at the start, as one flat parameter cut into shards.
 *
 * <p>This rank's shard is what the optimizer updates. The whole flat parameter exists only while it
 * is needed; it is gathered straight into the memory that the model's parameters are views of, so
 * nothing is copied out. In between, the model's parameters are views of the shard, one-dimensional
 * and perhaps empty, so that a use at the wrong time fails on its shape.
 */
final class FlatParameter implements AutoCloseable {
  /** Where the model's parameters are. */
  enum State {
    /** They are views of this rank's shard; the whole holds no memory. */
    SHARDED,
    /** A gather into the whole's memory is under way; they still are views of the shard. */
    GATHERING,
    /** They are views of the whole, in their own shapes. */
    UNSHARDED
  }

  private final List<String> names;
  private final List<Tensor> parameters;
  private final List<long[]> shapes = new ArrayList<>();
  private final FlatLayout layout;
  private final ShardGroups groups;
  private final Device device;
  private final DType dtype;
  private final ShardHome home;
  private final GatherStream gathers;
  private final Tensor shard; // [shardNumel]
  private final List<Tensor> shardViews = new ArrayList<>();
  private final @Nullable LoanedTensor whole; // [paddedNumel]; null where the shard is the whole
  private final @Nullable Tensor ownPiece; // [shardNumel] of whole
  private final List<Tensor> wholeViews = new ArrayList<>();
  private final FlatGradient gradient;
  private State state = State.SHARDED;
  private CollectiveHandle gather = NoCollective.INSTANCE;

  /**
   * Cuts {@code members} into shards and frees what this rank doesn't keep; all ranks call it
   * together. Rank 0's values replace the others'.
   *
   * @param members parameters of one element type on one device, by name
   * @param types what the whole parameter and its gradient are made of
   */
  FlatParameter(
      Map<String, Tensor> members,
      MixedPrecision types,
      ShardHome home,
      ShardGroups groups,
      BufferPool pool) {
    this.names = List.copyOf(members.keySet());
    this.parameters = List.copyOf(members.values());
    this.groups = groups;
    this.device = pool.device();
    this.dtype = DType.of(parameters.get(0));
    parameters.forEach(parameter -> shapes.add(Tensors.shape(parameter)));
    this.layout =
        new FlatLayout(parameters.stream().map(Tensor::numel).toList(), groups.shardCount());
    this.home = home;
    this.gathers = pool.gathers();
    DType gatheredType = types.gathered(dtype);
    boolean resident = isWhole() && gatheredType == dtype;
    try (var scope = NativeScope.open()) {
      this.shard = NativeScope.keep(cut(wholeValues()));
      this.whole = resident ? null : new LoanedTensor(pool, gatheredType, layout.paddedNumel());
      this.ownPiece =
          whole == null
              ? null
              : NativeScope.keep(
                  whole
                      .tensor()
                      .narrow(0, groups.shardIndex() * layout.shardNumel(), layout.shardNumel()));
      for (int i = 0; i < parameters.size(); i++) {
        addViews(i);
        parameters.get(i).set_data(shardViews.get(i));
      }
      if (whole != null) {
        whole.surrender();
      }
    }
    this.gradient = new FlatGradient(this, types.reduced(dtype), groups, pool);
  }

  /** Rank 0's values as one flat tensor [paddedNumel], in the current scope. */
  private Tensor wholeValues() {
    Tensor values = torch.zeros(new long[] {layout.paddedNumel()}, device.options(dtype));
    if (groups.world().rank() == 0) {
      for (int i = 0; i < parameters.size(); i++) {
        piece(values, i).copy_(parameters.get(i).detach());
      }
    }
    broadcast(values);
    return values;
  }

  private void broadcast(Tensor values) {
    if (groups.world().worldSize() > 1 && values.numel() > 0) {
      groups.world().broadcast(values, 0).await();
    }
  }

  /** Parameter {@code index} in its own shape, as a view of a whole flat tensor. */
  private Tensor piece(Tensor flat, int index) {
    return flat.narrow(0, layout.offset(index), layout.numel(index)).view(shapes.get(index));
  }

  private Tensor cut(Tensor values) {
    if (isWhole()) {
      return values;
    }
    Tensor own = home.zeros(dtype, device, layout.shardNumel());
    own.copy_(ownPart(values));
    return own;
  }

  /** Whether the shard is all there is, and lies where the model computes. */
  private boolean isWhole() {
    return groups.shardCount() == 1 && home == ShardHome.DEVICE;
  }

  private Tensor ownPart(Tensor values) {
    return values.narrow(0, groups.shardIndex() * layout.shardNumel(), layout.shardNumel());
  }

  private void addViews(int index) {
    FlatLayout.Slice slice = slice(index);
    shardViews.add(NativeScope.keep(shard.narrow(0, slice.offsetInShard(), slice.length())));
    wholeViews.add(NativeScope.keep(piece(whole == null ? shard : whole.tensor(), index)));
  }

  private FlatLayout.Slice slice(int index) {
    return layout.slice(index, groups.shardIndex());
  }

  List<String> names() {
    return names;
  }

  List<Tensor> parameters() {
    return parameters;
  }

  FlatLayout layout() {
    return layout;
  }

  /** Type of the shard, which is the model's own. */
  DType dtype() {
    return dtype;
  }

  /** Where the shard and its gradient live. */
  ShardHome home() {
    return home;
  }

  /** This rank's shard [shardNumel]. */
  Tensor shard() {
    return shard;
  }

  /** This rank's part of parameter {@code index} [length], which the optimizer updates. */
  Tensor shardView(int index) {
    return shardViews.get(index);
  }

  List<long[]> shapes() {
    return shapes;
  }

  FlatGradient gradient() {
    return gradient;
  }

  State state() {
    return state;
  }

  /** This rank's part of every parameter, live. */
  List<ParameterShard> shards() {
    List<ParameterShard> parts = new ArrayList<>();
    for (int i = 0; i < names.size(); i++) {
      parts.add(
          new ParameterShard(
              names.get(i),
              Arrays.stream(shapes.get(i)).boxed().toList(),
              slice(i).offsetInParameter(),
              shardViews.get(i)));
    }
    return parts;
  }

  /** Starts to gather the whole parameter from the ranks' shards, on the stream of gathers. */
  void startGather() {
    requireState(State.SHARDED);
    if (whole != null && ownPiece != null) {
      whole.acquire();
      gathers.follow(whole.unused());
      gather = gatherInto(whole, ownPiece);
    }
    state = State.GATHERING;
  }

  private CollectiveHandle gatherInto(LoanedTensor target, Tensor piece) {
    boolean copies = target.dtype() != dtype || home == ShardHome.HOST || groups.shardCount() == 1;
    if (copies) {
      piece.copy_(shard, true);
    }
    if (groups.shardCount() == 1 || shard.numel() == 0) {
      return gathers.copied();
    }
    try (var scope = NativeScope.open()) {
      Tensor output = target.owned();
      return groups.gather().allGather(output, copies ? ownPart(output) : shard);
    }
  }

  /** Waits on the host until the last gather has ended. */
  void awaitGather() {
    gather.awaitOnHost();
  }

  /** Waits for the gather and lets the model's parameters be views of the whole. */
  void finishGather() {
    if (state == State.UNSHARDED) {
      return;
    }
    requireState(State.GATHERING);
    gather.await();
    for (int i = 0; i < parameters.size(); i++) {
      parameters.get(i).set_data(wholeViews.get(i));
    }
    state = State.UNSHARDED;
  }

  /** Frees the whole; a gather under way is waited for. */
  void reshard() {
    if (state == State.SHARDED) {
      return;
    }
    if (state == State.GATHERING) {
      gather.await();
    } else {
      showShards();
    }
    if (whole != null) {
      whole.release();
    }
    state = State.SHARDED;
  }

  void showShards() {
    for (int i = 0; i < parameters.size(); i++) {
      parameters.get(i).set_data(shardViews.get(i));
    }
  }

  /** Lets the model's parameters be zeros that take no memory, to find a mistake. */
  void showStandIns() {
    try (var scope = NativeScope.open()) {
      DType gathered = whole == null ? dtype : whole.dtype();
      for (int i = 0; i < parameters.size(); i++) {
        parameters.get(i).set_data(Tensors.zeros(gathered, device).expand(shapes.get(i)));
      }
    }
  }

  /** Whether {@code tensor} is a view of the whole's memory. */
  boolean owns(Tensor tensor) {
    return tensor.is_alias_of(whole == null ? shard : whole.tensor());
  }

  /**
   * All ranks' shards in the model's own type, one after the other [paddedNumel], in the current
   * scope; all ranks of the shard group call it together.
   */
  Tensor gatherValues() {
    if (groups.shardCount() == 1 || shard.numel() == 0) {
      return shard;
    }
    Tensor values = Tensors.empty(dtype, device, layout.paddedNumel());
    Tensor own = ownPart(values);
    own.copy_(shard);
    groups.gather().allGather(values, own).await();
    return values;
  }

  /** Parameter {@code index} out of what {@link #gatherValues} returned. */
  Tensor valueOf(Tensor gathered, int index) {
    return piece(gathered, index);
  }

  /** Replaces all values by those of rank 0; all ranks call it together. */
  void replaceValues(Map<String, Tensor> onRankZero) {
    try (var scope = NativeScope.open()) {
      Tensor values = torch.zeros(new long[] {layout.paddedNumel()}, device.options(dtype));
      if (groups.world().rank() == 0) {
        for (int i = 0; i < names.size(); i++) {
          Tensor value = onRankZero.get(names.get(i));
          if (value == null) {
            throw new IllegalArgumentException("No value for \"" + names.get(i) + "\".");
          }
          piece(values, i).copy_(value.detach());
        }
      }
      broadcast(values);
      shard.copy_(ownPart(values));
    }
  }

  private void requireState(State expected) {
    if (state != expected) {
      throw new IllegalStateException(
          "Cannot gather or use parameters %s: expected state %s, got %s (rank %d of %d)."
              .formatted(
                  names,
                  expected.name().toLowerCase(Locale.ROOT),
                  state.name().toLowerCase(Locale.ROOT),
                  groups.world().rank(),
                  groups.world().worldSize()));
    }
  }

  /** Bytes of the shard. */
  long shardBytes() {
    return shard.numel() * dtype.bytes();
  }

  @Override
  public void close() {
    gradient.close();
    showShards();
    if (whole != null) {
      whole.close();
    }
    if (ownPiece != null) {
      ownPiece.close();
    }
    wholeViews.forEach(Tensor::close);
    shardViews.forEach(Tensor::close);
    shard.close();
  }
}
