package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.nn.BatchNorm;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.torch.DType;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/**
 * A block whose parameters are gathered and freed together: one flat parameter per element type,
 * per trainability so that frozen ones cost no gradient memory, and for batch normalisation, which
 * keeps the model's own type: its kernels want parameters and statistics of one type, and sums over
 * a batch lose too much in 16 bits.
 */
final class ShardedUnit implements AutoCloseable {
  private record Kind(DType dtype, boolean trainable, boolean batchNorm) {}

  private final UnitPlan plan;
  private final ShardGroups groups;
  private final GatherStream gathers;
  private final List<FlatParameter> flats = new ArrayList<>();

  /** Cuts the unit's parameters into shards; all ranks call it together. */
  ShardedUnit(
      UnitPlan plan, MixedPrecision types, ShardHome home, ShardGroups groups, BufferPool pool) {
    this.plan = plan;
    this.groups = groups;
    this.gathers = pool.gathers();
    Set<Tensor> batchNorm = BatchNorm.tensorsIn(plan.block());
    Map<Kind, Map<String, Tensor>> kinds = new LinkedHashMap<>();
    plan.parameters()
        .forEach(
            (name, tensor) ->
                kinds
                    .computeIfAbsent(
                        new Kind(
                            DType.of(tensor), tensor.requires_grad(), batchNorm.contains(tensor)),
                        kind -> new LinkedHashMap<>())
                    .put(name, tensor));
    kinds.forEach(
        (kind, members) ->
            flats.add(
                new FlatParameter(
                    members, kind.batchNorm() ? MixedPrecision.NONE : types, home, groups, pool)));
  }

  UnitPlan plan() {
    return plan;
  }

  boolean isRoot() {
    return plan.isRoot();
  }

  List<FlatParameter> flats() {
    return flats;
  }

  /** Gradients that take part in reductions. */
  List<FlatGradient> gradients() {
    List<FlatGradient> needed = new ArrayList<>(flats.size());
    for (FlatParameter flat : flats) {
      if (flat.gradient().isNeeded()) {
        needed.add(flat.gradient());
      }
    }
    return needed;
  }

  /** Starts to reduce the gradients that take part, and returns them. */
  List<FlatGradient> startReductions() {
    List<FlatGradient> needed = gradients();
    groups.reduce().grouped(() -> needed.forEach(FlatGradient::startReduction));
    return needed;
  }

  boolean isSharded() {
    return flats.stream().allMatch(flat -> flat.state() == FlatParameter.State.SHARDED);
  }

  void startGather() {
    gathers.run(() -> groups.gather().grouped(() -> flats.forEach(FlatParameter::startGather)));
  }

  void finishGather() {
    flats.forEach(FlatParameter::finishGather);
  }

  /** Waits on the host until the last gather has ended. */
  void awaitGather() {
    flats.forEach(FlatParameter::awaitGather);
  }

  void reshard() {
    flats.forEach(FlatParameter::reshard);
  }

  /** Lets the model's parameters be zeros in their own shapes, or this rank's shards. */
  void showStandIns(boolean whole) {
    flats.forEach(whole ? FlatParameter::showStandIns : FlatParameter::showShards);
  }

  /** Whether {@code tensor} shares memory with the gathered parameters. */
  boolean owns(Tensor tensor) {
    return flats.stream().anyMatch(flat -> flat.owns(tensor));
  }

  @Override
  public void close() {
    flats.forEach(FlatParameter::close);
  }

  @Override
  public String toString() {
    return plan.title();
  }
}
