package io.sparktrainer.spark;

import static org.apache.spark.sql.functions.max;
import static org.apache.spark.sql.functions.min;

import io.sparktrainer.data.DataSpec;
import io.sparktrainer.data.ElementType;
import io.sparktrainer.data.InputSpec;
import io.sparktrainer.data.TensorSchema;
import io.sparktrainer.data.TensorSpec;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.spark.config.DataConfig;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.TrainerConfig;
import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** What a configuration asks of the data, and what the data asks of the model. */
final class DataPlan {
  private static final long BYTES_PER_MIB = 1L << 20;

  private DataPlan() {}

  /** How the DataFrame's columns become batches. */
  static DataSpec spec(TrainerConfig config) {
    DataConfig data = config.data();
    InputSpec input = InputSpec.of("features", data.features().toArray(String[]::new));
    if (config.model() instanceof ModelSpec.Gpt) {
      input = input.withType(ElementType.INT64);
    }
    if (!data.shape().isEmpty()) {
      input = input.withRowShape(data.shape().stream().mapToLong(Integer::longValue).toArray());
    }
    return DataSpec.builder()
        .input(input)
        .label(InputSpec.of(TensorSchema.LABEL, data.label()).withType(labelType(config.loss())))
        .batchRows(config.training().batchSize())
        .order(data.shuffle() ? DataSpec.Order.SHUFFLED : DataSpec.Order.SEQUENTIAL)
        .seed(data.seed())
        .validation(data.validation())
        .nulls(data.rows().nulls())
        .nans(data.rows().nans())
        .balance(data.rows().balance())
        .memoryBudgetBytes(data.rows().memoryBudgetMb() * BYTES_PER_MIB)
        .build();
  }

  private static ElementType labelType(Losses loss) {
    return loss == Losses.CROSS_ENTROPY ? ElementType.INT64 : ElementType.FLOAT32;
  }

  /**
   * Sizes of the model: its input from the columns; its outputs from the configuration, else from
   * the label's classes, which takes a pass over the label column, or its number of values.
   *
   * @throws IllegalArgumentException if the labels are no classes
   */
  static ModelShape shape(TrainerConfig config, Dataset<Row> frame, TensorSchema schema) {
    List<List<Long>> inputs = schema.inputs().stream().map(TensorSpec::rowShape).toList();
    Integer outputs = config.model().outputs();
    if (outputs != null) {
      return new ModelShape(inputs, outputs);
    }
    TensorSpec label = schema.label();
    if (config.loss() == Losses.CROSS_ENTROPY) {
      return new ModelShape(inputs, classes(frame, config.data().label()));
    }
    return new ModelShape(inputs, label == null ? 1 : label.rowElements());
  }

  private static long classes(Dataset<Row> frame, String label) {
    Column value = frame.col("`" + label.replace("`", "``") + "`").cast("double");
    Row range = frame.agg(min(value), max(value)).head();
    double smallest = range.getDouble(0);
    double largest = range.getDouble(1);
    if (smallest < 0 || largest > Integer.MAX_VALUE - 1) {
      throw new IllegalArgumentException(
          "Cannot use column '%s' as label of cross_entropy: expected classes 0, 1, 2, ..., got values from %s to %s. Number the classes, for example with StringIndexer."
              .formatted(label, number(smallest), number(largest)));
    }
    return (long) largest + 1;
  }

  private static String number(double value) {
    return value == Math.rint(value) ? String.valueOf((long) value) : String.valueOf(value);
  }
}
