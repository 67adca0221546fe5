package io.sparktrainer.spark;

import io.sparktrainer.data.DataSpec;
import io.sparktrainer.data.Datasets;
import io.sparktrainer.data.EpochPlan;
import io.sparktrainer.data.PreparedData;
import io.sparktrainer.spark.barrier.BarrierStage;
import io.sparktrainer.spark.barrier.StageOptions;
import io.sparktrainer.spark.config.DataSource;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.resource.CudaGpus;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.plan.Plan;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Trains a model on the rows of a DataFrame, inside one barrier stage of the running Spark
 * application: one task per rank.
 *
 * <pre>{@code
 * TrainerConfig config = TrainerConfig.read(Path.of("train.yaml"));
 * TrainingResult result = new SparkTrainer(config).fit(frame);
 * }</pre>
 *
 * <p>A call that fails leaves the Spark application as it was, ready for the next one.
 */
public final class SparkTrainer {
  /** Option of Spark: how long to wait for executors that are still starting. */
  private static final String SLOT_WAIT = "spark.sparktrainer.slotWaitSeconds";

  private static final int DEFAULT_SLOT_WAIT_SECONDS = 20;

  private static final Logger LOG = LoggerFactory.getLogger(SparkTrainer.class);

  private final TrainerConfig config;
  private final @Nullable String strategyReason;

  public SparkTrainer(TrainerConfig config) {
    this(config, null);
  }

  private SparkTrainer(TrainerConfig config, @Nullable String strategyReason) {
    this.config = config;
    this.strategyReason = strategyReason;
  }

  /**
   * Trains on the data that the configuration names.
   *
   * @throws IllegalArgumentException if it names none, or for the reasons of {@link #fit(Dataset)}
   * @throws io.sparktrainer.spark.barrier.StageFailedException see {@link #fit(Dataset)}
   */
  public TrainingResult fit(SparkSession session) {
    DataSource source = config.data().source();
    if (source == null) {
      throw new IllegalArgumentException(
          "Cannot train: expected data.source and data.path, got none. Name the data, or hand in a DataFrame.");
    }
    return fit(DataFrames.read(session, source));
  }

  /**
   * Trains on the rows of a DataFrame.
   *
   * @return figures and places of what was written
   * @throws IllegalArgumentException if columns, rows or the run folder do not allow it
   * @throws io.sparktrainer.spark.barrier.StageFailedException if there are too few slots, dynamic
   *     allocation is on, or a rank failed: then with the first cause, its rank, host, device and
   *     step
   */
  public TrainingResult fit(Dataset<Row> frame) {
    DataSource second = config.data().validationSource();
    return run(frame, second == null ? null : DataFrames.read(frame.sparkSession(), second));
  }

  /**
   * Trains on the rows of a DataFrame and tests on those of another one, which needs the same
   * columns.
   *
   * @return figures and places of what was written
   * @throws IllegalArgumentException as {@link #fit(Dataset)}, or if the configuration names
   *     validation rows too
   * @throws io.sparktrainer.spark.barrier.StageFailedException see {@link #fit(Dataset)}
   */
  public TrainingResult fit(Dataset<Row> frame, Dataset<Row> validation) {
    if (config.data().validationSource() != null) {
      throw new IllegalArgumentException(
          "Cannot read validation rows: expected one place for them, got a second DataFrame and data.validation.source.");
    }
    return run(frame, validation);
  }

  private TrainingResult run(Dataset<Row> frame, @Nullable Dataset<Row> validation) {
    if (config.device().strategy() instanceof StrategySpec.Auto) {
      Plan plan = new TrainingPlan(config).of(frame);
      StrategySpec resolved = plan.resolve();
      LOG.info("Strategy auto is {}: {}", resolved, plan.reason());
      return new SparkTrainer(config.withStrategy(resolved), plan.reason()).run(frame, validation);
    }
    if (config.model() instanceof ModelSpec.TorchScript script) {
      String path = ScriptFile.find(script.path()).qualifiedPath();
      if (!path.equals(script.path())) {
        ModelSpec found = new ModelSpec.TorchScript(path, script.outputs());
        return new SparkTrainer(config.withModel(found), strategyReason).run(frame, validation);
      }
    }
    long start = System.nanoTime();
    SparkContext spark = frame.sparkSession().sparkContext();
    int workers = config.workers();
    StageOptions options =
        StageOptions.builder(
                "spark-trainer: %s, %d %s"
                    .formatted(
                        config.device().strategy().name(),
                        workers,
                        workers == 1 ? "rank" : "ranks"))
            .device(RankDevices.request(config.device()), new CudaGpus())
            .resources(RankDevices.resources(config.device()))
            .nccl(config.device().nccl().variables())
            .timeoutSeconds(config.device().timeoutSeconds())
            .slotWaitSeconds(spark.conf().getInt(SLOT_WAIT, DEFAULT_SLOT_WAIT_SECONDS))
            .build();
    config.device().nccl().warnings().forEach(LOG::warn);
    Configuration hadoop = frame.sparkSession().sessionState().newHadoopConf();
    InitialWeights initial =
        config.init() == null ? null : InitialWeights.find(config.init(), hadoop);
    BarrierStage.requireSlots(spark, workers, options);
    DataSpec spec = DataPlan.spec(config);
    PreparedData data =
        validation == null
            ? Datasets.prepare(frame, spec, workers)
            : Datasets.prepare(frame, validation, spec, workers);
    data.materialize();
    ModelShape shape =
        DataPlan.shape(
            config,
            validation == null ? List.of(frame) : List.of(frame, validation),
            data.schema());
    Models.check(config.model(), shape);
    String yaml = yaml();
    RunFolder folder = RunFolder.create(config.output(), hadoop, yaml);
    try (Reports reports = Reports.open(spark, config, folder, strategyReason)) {
      EpochPlan plan = data.plan();
      reports.announce(plan == null ? null : PlannedSteps.of(config, plan, data.validationRows()));
      TrainingProgram program =
          new TrainingProgram(yaml, shape, data.reader(), folder, initial, reports.address());
      List<String> outcomes = BarrierStage.run(data.rdd(), program, options);
      RankOutcome outcome = RankOutcome.join(outcomes);
      double seconds = (System.nanoTime() - start) / 1e9;
      return reports.finish(outcome, seconds);
    }
  }

  private String yaml() {
    String comment =
        strategyReason == null ? "" : "# strategy auto: %s%n".formatted(strategyReason);
    return comment + config.toYaml();
  }
}
