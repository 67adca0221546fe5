package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.CollectiveCounts;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.BatchNorm;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.CoalescedBroadcast;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ModelFingerprint;
import io.sparktrainer.strategy.ParameterShard;
import io.sparktrainer.strategy.ReplicaStrategy;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;

/**
 * Fully sharded data parallel: parameters, gradients and optimizer state are cut into one piece per
 * rank, and each unit of the model is gathered only for its forward and its backward. Semantics of
 * PyTorch's {@code fully_shard} (FSDP2), with one flat parameter per unit and element type as in
 * Zhao et al., VLDB 2023.
 *
 * <p>Gradients are means over all ranks. All ranks call {@link #forwardBackward}, {@link #predict},
 * {@link #clipGradNorm} and {@link #fullState} equally often; they may use different parts of the
 * model. Outside of these calls the model's parameters are this rank's shards, one-dimensional.
 * Buffers are neither cut nor synchronised after the start.
 */
public final class FsdpStrategy extends ReplicaStrategy {
  private final FsdpOptions options;
  private final ShardHome home;
  private final ShardGroups groups;
  private final GatherStream gathers;
  private final BufferPool pool;
  private final List<ShardedUnit> units = new ArrayList<>();
  private final List<FlatParameter> flats = new ArrayList<>();
  private final PassDriver driver;
  private final UsedParameters used;
  private final ShardedClipping clipping;
  private final StateTransfer transfer;

  /**
   * Takes over {@code model} and {@code communicator}; all ranks construct it together. Rank 0's
   * parameters and buffers replace the others', and each rank keeps its shards.
   *
   * @throws IllegalArgumentException if the model has no trainable parameter, the wrap policy
   *     matches nothing, or the shard group does not divide the world
   * @throws IllegalStateException on every rank, if models or options differ between ranks
   */
  public FsdpStrategy(Block model, Communicator communicator, FsdpOptions options) {
    this(model, communicator, options, ComputeOptions.defaults());
  }

  /**
   * The same with compute options. Where they ask for a lower precision and {@code options} name no
   * types, parameters are gathered in that precision and gradients reduced in float32: the model
   * computes as under autocast, and no full-precision copy of it is made.
   *
   * @throws IllegalArgumentException if the model has no trainable parameter, the wrap policy
   *     matches nothing, the checkpointing policy chooses no block, or the shard group does not
   *     divide the world
   * @throws IllegalStateException on every rank, if models or options differ between ranks
   */
  public FsdpStrategy(
      Block model, Communicator communicator, FsdpOptions options, ComputeOptions compute) {
    this(model, communicator, options, compute, ShardHome.of(options, compute.device()));
  }

  /** The same with the shards in a given home, so that offloading can be tested on any device. */
  FsdpStrategy(
      Block model,
      Communicator communicator,
      FsdpOptions given,
      ComputeOptions compute,
      ShardHome home) {
    super(model, communicator, compute);
    this.options = given.withPrecision(compute.precision());
    this.home = home;
    List<UnitPlan> plans = UnitPlanner.plan(model, options.wrapPolicy());
    ModelFingerprint.requireEqual(
        model, options + ", precision " + compute.precision(), communicator);
    this.groups = ShardGroups.divide(communicator, options);
    Device device = compute.device();
    model.moveBuffersTo(device);
    this.gathers = new GatherStream(groups.gather());
    this.pool = new BufferPool(device, gathers);
    try (var off = Gradients.off()) {
      for (UnitPlan plan : plans) {
        ShardedUnit unit = new ShardedUnit(plan, options.mixedPrecision(), home, groups, pool);
        units.add(unit);
        flats.addAll(unit.flats());
      }
      CoalescedBroadcast.run(communicator, model.buffers().values(), 0);
    }
    this.transfer = new StateTransfer(model, flats, castBuffers(), communicator);
    this.driver = new PassDriver(units, options, gathers);
    this.used = new UsedParameters(units, communicator, device);
    this.clipping = new ShardedClipping(flats, groups.gather(), device);
  }

  /**
   * Casts floating-point buffers where the options say so, but for those of batch normalisation,
   * whose parameters keep their type as well; returns the types they had.
   */
  private Map<String, DType> castBuffers() {
    Map<String, DType> before = new LinkedHashMap<>();
    DType wanted = options.mixedPrecision().bufferDtype();
    Set<Tensor> batchNorm = BatchNorm.tensorsIn(model());
    model()
        .buffers()
        .forEach(
            (name, buffer) -> {
              DType own = DType.of(buffer);
              before.put(name, own);
              if (wanted != null && own.isFloatingPoint() && !batchNorm.contains(buffer)) {
                try (var scope = NativeScope.open()) {
                  buffer.set_data(buffer.to(wanted.scalarType()));
                }
              }
            });
    return before;
  }

  @Override
  public String name() {
    return "fsdp";
  }

  /** This rank's shards of the trainable parameters, one-dimensional, by parameter name. */
  @Override
  public Map<String, Tensor> trainable() {
    Map<String, Tensor> trainable = new LinkedHashMap<>();
    for (FlatParameter flat : flats) {
      flat.gradient().refreshTrainable();
      for (int i = 0; i < flat.names().size(); i++) {
        if (flat.gradient().isTrainable(i)) {
          trainable.put(flat.names().get(i), flat.shardView(i));
        }
      }
    }
    return trainable;
  }

  /** This rank's part of every parameter, frozen ones included, by name. */
  public Map<String, ParameterShard> shards() {
    Map<String, ParameterShard> shards = new LinkedHashMap<>();
    for (FlatParameter flat : flats) {
      flat.shards().forEach(shard -> shards.put(shard.name(), shard));
    }
    return shards;
  }

  @Override
  protected void beforeForward(GradientSync sync) {
    for (FlatParameter flat : flats) {
      flat.gradient().refreshTrainable();
      flat.gradient().prepare();
    }
    driver.beginForward();
  }

  @Override
  protected void backward(Tensor loss, GradientSync sync) {
    try (var scope = NativeScope.open()) {
      driver.beginBackward(sync);
      try {
        loss.backward();
      } catch (RuntimeException e) {
        throw driver.causeOf(e);
      }
      try (var off = Gradients.off()) {
        driver.endBackward();
        if (sync == GradientSync.REDUCE) {
          used.publish(driver::awaitReductions);
          driver.order().agree(driver.log().order(), communicator(), pool.device());
        } else if (options.accumulateSharded()) {
          driver.awaitReductions();
        }
      }
    }
  }

  @Override
  public boolean predictsTogether() {
    return true;
  }

  @Override
  protected Tensor output(Tensor... inputs) {
    try {
      driver.beginInference();
      Tensor output = super.output(inputs);
      driver.endInference();
      return output;
    } catch (RuntimeException | Error e) {
      fail();
      throw e;
    }
  }

  @Override
  public void joinPredict() {
    guarded(driver::shadowInference);
  }

  @Override
  public void zeroGrad() {
    requireReady();
    flats.forEach(flat -> flat.gradient().clear());
    units.forEach(ShardedUnit::reshard);
  }

  @Override
  public double clipGradNorm(double maxNorm) {
    requireReady();
    return clipping.byNorm(maxNorm);
  }

  @Override
  public void clipGradValue(double limit) {
    requireReady();
    clipping.byValue(limit);
  }

  @Override
  public Map<String, Tensor> fullState() {
    requireReady();
    return transfer.gather();
  }

  /**
   * Replaces all parameters and buffers by those of rank 0, and cuts them anew; all ranks call it
   * together, between steps.
   *
   * @param onRankZero whole tensors by name, as {@link #fullState} returned them; not looked at on
   *     the other ranks
   * @throws IllegalArgumentException on every rank, if rank 0 lacks a tensor of the model, or has
   *     one of another shape or one that the model does not have
   */
  public void loadFullState(Map<String, Tensor> onRankZero) {
    requireReady();
    units.forEach(ShardedUnit::reshard);
    transfer.load(onRankZero);
  }

  /** What this rank holds. */
  public FsdpMemory memory() {
    long parameters = flats.stream().mapToLong(FlatParameter::shardBytes).sum();
    long gradients = flats.stream().mapToLong(flat -> flat.gradient().shardBytes()).sum();
    return new FsdpMemory(
        parameters,
        gradients,
        pool.allocatedBytes(),
        pool.peakLentBytes(),
        home == ShardHome.HOST ? parameters + gradients : 0);
  }

  /** What went through each of this rank's groups so far. */
  Map<String, CollectiveCounts> collectives() {
    return groups.counts();
  }

  @Override
  protected void release() {
    driver.close();
    units.forEach(ShardedUnit::close);
    groups.close();
    pool.close();
    gathers.close();
  }
}
