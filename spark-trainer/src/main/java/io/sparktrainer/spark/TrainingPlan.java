package io.sparktrainer.spark;

import io.sparktrainer.data.Datasets;
import io.sparktrainer.data.ElementType;
import io.sparktrainer.data.InputSpec;
import io.sparktrainer.data.TensorSchema;
import io.sparktrainer.data.TensorSpec;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.spark.config.DataSource;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.resource.DeviceRequest;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.strategy.plan.Plan;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.jspecify.annotations.Nullable;

/**
 * What each strategy would take for a training, without running it. Of the data it needs the schema
 * at most, and not even that where the configuration gives {@code data.shape}, or the model is a
 * gpt.
 */
public final class TrainingPlan {
  /** Classes of a label that nobody has counted; more cost little. */
  private static final int ASSUMED_CLASSES = 2;

  private final TrainerConfig config;
  private @Nullable Integer hosts;
  private @Nullable Long bytesPerRank;

  public TrainingPlan(TrainerConfig config) {
    this.config = config;
  }

  /** Plans for this many hosts instead of those that Spark has. */
  public TrainingPlan hosts(int count) {
    this.hosts = count;
    return this;
  }

  /** Plans with this much memory per rank instead of its share of what is free. */
  public TrainingPlan bytesPerRank(long bytes) {
    this.bytesPerRank = bytes;
    return this;
  }

  /** Whether the configuration leaves open what only the data's schema tells. */
  public boolean needsData() {
    return !(config.model() instanceof ModelSpec.Gpt)
        && config.data().inputs().stream().anyMatch(input -> input.rowShape() == null);
  }

  /**
   * Plans from the configuration alone, for this machine unless told otherwise.
   *
   * @throws IllegalStateException if that needs the data
   * @throws IllegalArgumentException if the model or the machines don't allow it
   */
  public Plan withoutData() {
    if (needsData()) {
      throw new IllegalStateException(
          "Cannot plan without the data: expected data.shape, got none.");
    }
    List<ModelShape.Input> inputs =
        DataPlan.spec(config).inputs().stream().map(this::withoutData).toList();
    Machines given = imagined();
    return plan(
        new ModelShape(inputs, outputs(null)),
        given == null ? Cluster.local(config.workers(), kind()) : given);
  }

  private ModelShape.Input withoutData(InputSpec input) {
    List<Long> row = input.rowShape();
    if (row == null) {
      if (!(config.model() instanceof ModelSpec.Gpt gpt)) {
        throw new IllegalStateException(
            "Cannot plan without the data: expected a shape of '" + input.name() + "', got none.");
      }
      row = List.of((long) gpt.sizes().context());
    }
    ElementType type = input.type() == null ? ElementType.FLOAT32 : input.type();
    return DataPlan.assumed(config, input, new TensorSpec(input.name(), type, row));
  }

  /**
   * Plans with the schema of the data that the configuration names.
   *
   * @throws IllegalArgumentException if there is no such data, or the model or the machines don't
   *     allow it
   */
  public Plan of(SparkSession session) {
    DataSource source = config.data().source();
    if (source == null) {
      throw new IllegalArgumentException(
          "Cannot plan: expected data.source and data.path, or data.shape, got neither.");
    }
    return of(DataFrames.read(session, source));
  }

  /** Plans with the schema of {@code frame}. */
  Plan of(Dataset<Row> frame) {
    TensorSchema schema = Datasets.prepare(frame, DataPlan.spec(config), config.workers()).schema();
    List<InputSpec> specs = DataPlan.spec(config).inputs();
    List<ModelShape.Input> inputs =
        IntStream.range(0, specs.size())
            .mapToObj(i -> DataPlan.assumed(config, specs.get(i), schema.inputs().get(i)))
            .toList();
    Machines given = imagined();
    return plan(
        new ModelShape(inputs, outputs(schema.label())),
        given == null
            ? Cluster.of(frame.sparkSession().sparkContext(), config.workers(), kind())
            : given);
  }

  private DeviceRequest.Kind kind() {
    return RankDevices.request(config.device()).kind();
  }

  /** Where GPUs are asked for and their memory is given, nobody has to look for them. */
  private @Nullable Machines imagined() {
    return kind() == DeviceRequest.Kind.CUDA && bytesPerRank != null
        ? Cluster.imagined(config.workers(), bytesPerRank)
        : null;
  }

  private long outputs(@Nullable TensorSpec label) {
    Integer configured = config.model().outputs();
    if (configured != null) {
      return configured;
    }
    if (config.loss() == Losses.CROSS_ENTROPY) {
      return ASSUMED_CLASSES;
    }
    return label == null ? 1 : label.rowElements();
  }

  private Plan plan(ModelShape shape, Machines found) {
    int planned = hosts == null ? found.hosts() : hosts;
    Machines machines =
        new Machines(
            found.type(),
            bytesPerRank == null ? found.deviceBytes() : bytesPerRank,
            planned,
            found.ranks());
    return new StrategyPlans(config, shape).plan(machines);
  }
}
