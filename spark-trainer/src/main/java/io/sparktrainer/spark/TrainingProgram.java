package io.sparktrainer.spark;

import io.sparktrainer.checkpoint.Safetensors;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.data.EpochPlan;
import io.sparktrainer.data.RankData;
import io.sparktrainer.data.RankReader;
import io.sparktrainer.data.RankShare;
import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.engine.Trainer;
import io.sparktrainer.engine.TrainingOptions;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.spark.barrier.Fingerprint;
import io.sparktrainer.spark.barrier.Rank;
import io.sparktrainer.spark.barrier.RankProgram;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.config.TrainingConfig;
import io.sparktrainer.spark.metrics.MetricRecord;
import io.sparktrainer.spark.metrics.MetricsAddress;
import io.sparktrainer.spark.resource.Gpu;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.torch.CudaDevices;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalDouble;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/** One rank's side of a training, from its rows to the model in the run folder. */
final class TrainingProgram implements RankProgram<byte[]> {
  private static final long serialVersionUID = 1L;

  /** As text: what it is made of need not be serializable, and it is what ranks compare. */
  private final String configYaml;

  private final ModelShape shape;
  private final RankReader reader;
  private final RunFolder folder;
  private final @Nullable InitialWeights initial;
  private final @Nullable MetricsAddress metrics;

  /**
   * @param initial weights to start from, or null for random ones
   * @param metrics where figures go, or null
   */
  TrainingProgram(
      String configYaml,
      ModelShape shape,
      RankReader reader,
      RunFolder folder,
      @Nullable InitialWeights initial,
      @Nullable MetricsAddress metrics) {
    this.configYaml = configYaml;
    this.shape = shape;
    this.reader = reader;
    this.folder = folder;
    this.initial = initial;
    this.metrics = metrics;
  }

  @Override
  public String run(Rank rank, Iterator<byte[]> rows) throws IOException {
    TrainerConfig config = TrainerConfig.parse(configYaml);
    if (rank.rank() == 0) {
      folder.requireVisible(rank.host());
    }
    rank.doing("loading libtorch");
    NativeLibraries.load();
    Threads.use(rank.threads());
    boolean mayHaveGpus = rank.mayHaveGpus();
    rank.doing("reading its rows");
    try (RankData data = reader.read(rank.rank(), rows)) {
      rank.doing("making the model");
      Block model = model(config, rank);
      long parameters = elements(model.parameters());
      if (rank.rank() == 0 && initial != null) {
        rank.doing("reading " + initial.path());
        load(initial, model);
      }
      ParallelStrategy strategy;
      try {
        Communicator ranks = rank.meet(fingerprint(model), data.training().rows());
        if (mayHaveGpus) {
          requireFitsDevice(parameters, config, rank);
        }
        data.agree(mine -> sum(ranks, mine));
        strategy =
            Strategies.create(
                RankDevices.onDevices(config.device().strategy(), rank.gpus()),
                replicas(config, model),
                ranks,
                config.device().computeOptions().withDevice(RankDevices.device(rank.gpus())));
      } catch (RuntimeException e) {
        model.close();
        throw e;
      }
      return train(config, rank, data, strategy, parameters);
    }
  }

  /** On rank 0 only: every strategy starts from its values, whatever the others drew. */
  private static void load(InitialWeights initial, Block model) throws IOException {
    try {
      initial.load(model);
    } catch (IOException | RuntimeException e) {
      model.close();
      throw e;
    }
  }

  /** The model that the ranks compared first, then more of its kind. */
  private Supplier<Block> replicas(TrainerConfig config, Block model) {
    AtomicReference<@Nullable Block> first = new AtomicReference<>(model);
    return () -> {
      Block made = first.getAndSet(null);
      return made != null ? made : Models.create(config.model(), shape, config.training().seed());
    };
  }

  private Block model(TrainerConfig config, Rank rank) {
    OptionalDouble planned = Models.parameters(config.model(), shape);
    if (planned.isPresent()) {
      requireFits(planned.getAsDouble(), config, rank);
    }
    try (var scope = NativeScope.open()) {
      Block model = Models.create(config.model(), shape, config.training().seed());
      if (planned.isEmpty()) {
        requireFits(elements(model.parameters()), config, rank);
      }
      return model;
    }
  }

  /** Before the model is made, which happens in the host's memory. */
  private static void requireFits(double parameters, TrainerConfig config, Rank rank) {
    ModelMemory needed = memory(parameters, config);
    (rank.mayHaveGpus() ? needed.parametersOnly() : needed)
        .requireFits(rank.ranksOnHost(), HostMemory.availableBytes());
  }

  /** Once the ranks have agreed on devices. */
  private static void requireFitsDevice(double parameters, TrainerConfig config, Rank rank) {
    if (rank.gpus().isEmpty()) {
      memory(parameters, config).requireFits(rank.ranksOnHost(), HostMemory.availableBytes());
    }
    ModelMemory needed = memory(parameters, config).onDevice(config.device().strategy());
    for (Gpu gpu : rank.gpus()) {
      CudaDevices.requireFree(
          CudaDevices.get(gpu.index()),
          (long) needed.total(),
          "rank %d of %d under %s, which needs in GiB %s, before any activations"
              .formatted(
                  rank.rank(),
                  rank.worldSize(),
                  config.device().strategy().name(),
                  needed.parts()));
    }
  }

  private static ModelMemory memory(double parameters, TrainerConfig config) {
    return ModelMemory.of(parameters, config.optimizer(), config.device().strategy());
  }

  private Fingerprint fingerprint(Block model) {
    List<String> lines = new ArrayList<>(configYaml.lines().toList());
    model
        .state()
        .forEach(
            (name, tensor) ->
                lines.add(
                    "%s: %s%s"
                        .formatted(
                            name, DType.of(tensor), Arrays.toString(Tensors.shape(tensor)))));
    return new Fingerprint(lines);
  }

  private String train(
      TrainerConfig config, Rank rank, RankData data, ParallelStrategy strategy, long parameters)
      throws IOException {
    try (strategy) {
      try {
        return fit(config, rank, data, strategy, parameters);
      } catch (RuntimeException | IOException | Error e) {
        // Closing waits for the others, who would wait for this rank.
        strategy.abort(String.valueOf(e.getMessage()));
        throw e;
      }
    }
  }

  private String fit(
      TrainerConfig config, Rank rank, RankData data, ParallelStrategy strategy, long parameters)
      throws IOException {
    RankShare validation = data.validation();
    DeviceGauge gauge = new DeviceGauge(rank.rank(), rank.gpus());
    try (Optimizer optimizer = config.optimizer().create(strategy.trainable());
        ProgressListener listener = new ProgressListener(rank, gauge, metrics);
        RowBatches train = new RowBatches(data.training(), rank.rank());
        RowBatches test = validation == null ? null : new RowBatches(validation, rank.rank())) {
      EpochPlan plan = data.training().plan();
      MetricRecord.Start start =
          PlannedSteps.of(config, plan, validation == null ? 0 : validation.plan().totalRows());
      listener.onStart(start);
      Trainer trainer =
          new Trainer(
              strategy, optimizer, config.schedule(), config.loss(), options(config), listener);
      List<EpochMetrics> epochs = trainer.fit(train, test);
      rank.doing("writing the model");
      writeModel(rank, strategy);
      RankOutcome outcome =
          rank.rank() == 0
              ? new RankOutcome(
                  epochs,
                  rank.facts(),
                  parameters,
                  start.stepsPerEpoch(),
                  start.steps(),
                  rank.deviceLack(),
                  gauge.epochs())
              : RankOutcome.ofMemory(gauge.epochs());
      return outcome.toJson();
    }
  }

  private void writeModel(Rank rank, ParallelStrategy strategy) throws IOException {
    try (var scope = NativeScope.open()) {
      Map<String, Tensor> state = strategy.fullState();
      if (rank.rank() == 0) {
        folder.writeWhole(
            RunFolder.MODEL, out -> Safetensors.write(out, state, Map.of("format", "pt")));
      }
    }
  }

  private static TrainingOptions options(TrainerConfig config) {
    TrainingConfig training = config.training();
    return new TrainingOptions(
        training.epochs(),
        training.accumulate(),
        training.clipGradNorm(),
        training.clipGradValue(),
        training.seed());
  }

  private static long elements(Map<String, Tensor> tensors) {
    return tensors.values().stream().mapToLong(Tensor::numel).sum();
  }

  private static long[] sum(Communicator ranks, long[] mine) {
    try (var scope = NativeScope.open()) {
      Tensor values = Tensors.of(mine, mine.length);
      ranks.allReduce(values, ReduceOp.SUM).await();
      return Tensors.toLongs(values);
    }
  }
}
