package io.sparktrainer.spark;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.strategy.plan.ActivationProbe;
import io.sparktrainer.strategy.plan.Activations;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.strategy.plan.ModelOutline;
import io.sparktrainer.strategy.plan.Plan;
import io.sparktrainer.strategy.plan.Planner;
import io.sparktrainer.strategy.plan.StepOutline;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.ProcessMemory;
import io.sparktrainer.torch.ShapesOnly;
import io.sparktrainer.torch.Tensors;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;
import org.bytedeco.pytorch.Tensor;

/** Predicts what each strategy takes for the model of a configuration. */
final class StrategyPlans {
  /** A probing batch may take this part of the memory that is free. */
  private static final int MEMORY_SHARE = 4;

  /** And about this much arithmetic, some seconds on a laptop. */
  private static final double PROBE_OPERATIONS = 5e11;

  private static final int PROBE_PASSES = 5;
  private static final int IMAGE_AXES = 3;

  private final TrainerConfig config;
  private final ModelShape shape;
  private final ComputeOptions options;

  /**
   * @param shape what the data asks of the model
   */
  StrategyPlans(TrainerConfig config, ModelShape shape) {
    this.config = config;
    this.shape = shape;
    this.options = config.device().computeOptions();
  }

  /**
   * Plans for these machines.
   *
   * @throws IllegalArgumentException if the model cannot be made for the shape
   */
  Plan plan(Machines machines) {
    Models.check(config.model(), shape);
    StrategySpec.Auto auto = auto(machines.ranks());
    ModelOutline model = ModelOutline.of(this::model, auto.fsdp().wrapPolicy());
    StepOutline step =
        new StepOutline(
            config.optimizer(),
            config.training().accumulate(),
            options.precision(),
            activations(model));
    return new Planner(model, step, machines).plan(auto);
  }

  private Block model() {
    return Models.create(config.model(), shape, config.training().seed());
  }

  /** The configuration's options; defaults for strategies that it does not name. */
  private StrategySpec.Auto auto(int ranks) {
    StrategySpec spec = config.device().strategy();
    if (spec instanceof StrategySpec.Auto auto) {
      return auto;
    }
    return new StrategySpec.Auto(
        ranks,
        spec instanceof StrategySpec.Ddp ddp ? ddp.options() : DdpOptions.defaults(),
        spec instanceof StrategySpec.Fsdp fsdp ? fsdp.options() : FsdpOptions.defaults());
  }

  private Activations activations(ModelOutline model) {
    long rows = config.training().batchSize();
    List<Long> row = shape.inputs().get(0).rowShape();
    long tokens = readsTokens() ? last(row, 1) : 1;
    long pixels = row.size() == IMAGE_AXES ? last(row, 2) : 1;
    int valueBytes = options.precision().dtype().bytes();
    long estimate =
        options.activationCheckpointing() == null
            ? ActivationProbe.estimate(model, rows * tokens, rows * pixels, valueBytes)
            : ActivationProbe.estimateCheckpointed(
                ModelOutline.of(this::model, new WrapPolicy.MarkedBlocks()),
                rows * tokens,
                rows * pixels,
                valueBytes);
    double operations = 2.0 * PROBE_PASSES * model.numel() * rows * Math.max(tokens, pixels);
    double bytes = (double) model.parameterBytes() + estimate;
    boolean cheap =
        operations <= PROBE_OPERATIONS
            && bytes <= (double) HostMemory.availableBytes() / MEMORY_SHARE;
    return cheap && ProcessMemory.isMeasurable()
        ? new Activations(probe(), Activations.Source.PROBED)
        : new Activations(estimate, Activations.Source.ESTIMATED);
  }

  /** Product of the last {@code count} sizes. */
  private static long last(List<Long> row, int count) {
    return row.stream().skip(Math.max(0, row.size() - count)).reduce(1L, Math::multiplyExact);
  }

  private boolean readsTokens() {
    try (var scope = NativeScope.open();
        var shapes = ShapesOnly.open();
        Block model = model()) {
      return model instanceof Gpt;
    }
  }

  private long probe() {
    try (var scope = NativeScope.open();
        Block model = model()) {
      Tensor[] inputs =
          shape.inputs().stream()
              .map(
                  input ->
                      Tensors.zeros(
                          DType.valueOf(input.type().name()), Device.CPU, batch(input.rowShape())))
              .toArray(Tensor[]::new);
      return ActivationProbe.measure(model, inputs, target(model, inputs), config.loss(), options);
    }
  }

  /** Zeros of the shape that the loss wants for what the model puts out. */
  private Tensor target(Block model, Tensor[] inputs) {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      long[] output = Tensors.shape(model.call(inputs));
      boolean classes = config.loss() == Losses.CROSS_ENTROPY;
      return scope.pass(
          Tensors.zeros(
              classes ? DType.INT64 : DType.FLOAT32,
              Device.CPU,
              classes ? Arrays.copyOf(output, output.length - 1) : output));
    }
  }

  private long[] batch(List<Long> row) {
    return LongStream.concat(
            LongStream.of(config.training().batchSize()), row.stream().mapToLong(Long::longValue))
        .toArray();
  }
}
