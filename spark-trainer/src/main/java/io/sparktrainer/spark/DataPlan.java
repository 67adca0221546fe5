package io.sparktrainer.spark;

import io.sparktrainer.data.DataSpec;
import io.sparktrainer.data.ElementType;
import io.sparktrainer.data.InputSpec;
import io.sparktrainer.data.TensorSchema;
import io.sparktrainer.data.TensorSpec;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.spark.config.DataConfig;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.spark.config.RowOptions;
import io.sparktrainer.spark.config.TrainerConfig;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.jspecify.annotations.Nullable;

/** What a configuration asks of the data, and what the data asks of the model. */
final class DataPlan {
  private static final long BYTES_PER_MIB = 1L << 20;

  /** Categories of a column that nobody has counted; what they cost is little beside a model. */
  private static final int ASSUMED_CATEGORIES = 100;

  private DataPlan() {}

  /** How the DataFrame's columns become batches. */
  static DataSpec spec(TrainerConfig config) {
    DataConfig data = config.data();
    RowOptions rows = data.rows();
    DataSpec.Builder builder =
        DataSpec.builder()
            .batchRows(config.training().batchSize())
            .order(data.shuffle() ? DataSpec.Order.SHUFFLED : DataSpec.Order.SEQUENTIAL)
            .seed(data.seed())
            .validation(data.validation())
            .nulls(rows.nulls())
            .nans(rows.nans())
            .balance(rows.balance())
            .memoryBudgetBytes(rows.memoryBudgetMb() * BYTES_PER_MIB);
    data.inputs().forEach(input -> builder.input(typed(input, config)));
    InputSpec label = data.label();
    if (label != null) {
      builder.label(label.type() == null ? label.withType(labelType(config.loss())) : label);
    }
    if (data.weight() != null) {
      builder.weight(data.weight());
    }
    if (rows.spillDirectory() != null) {
      builder.spillDirectory(rows.spillDirectory());
    }
    return builder.build();
  }

  /** Floats, but for categories and tokens. */
  private static InputSpec typed(InputSpec input, TrainerConfig config) {
    boolean whole =
        input.name().equals(DataConfig.CATEGORIES) || config.model() instanceof ModelSpec.Gpt;
    return whole && input.type() == null ? input.withType(ElementType.INT64) : input;
  }

  private static ElementType labelType(Losses loss) {
    return loss == Losses.CROSS_ENTROPY ? ElementType.INT64 : ElementType.FLOAT32;
  }

  /**
   * Sizes of the model: its inputs from the columns; its outputs from the configuration, else from
   * the label's classes or its number of values. Classes of the label and categories of a tabular
   * model are counted in one pass over those columns.
   *
   * @param frames training rows, and validation rows where they are in a DataFrame of their own
   * @throws IllegalArgumentException if labels are no classes, or a column holds no categories
   */
  static ModelShape shape(TrainerConfig config, List<Dataset<Row>> frames, TensorSchema schema) {
    DataSpec spec = spec(config);
    ColumnRanges ranges = new ColumnRanges(spec.nulls());
    InputSpec label = spec.label();
    boolean countsClasses =
        config.model().outputs() == null && config.loss() == Losses.CROSS_ENTROPY && label != null;
    if (countsClasses && label != null) {
      requireClasses(label, schema.label());
      ranges.add(label.columns().get(0));
    }
    List<String> categories = new ArrayList<>();
    for (InputSpec input : spec.inputs()) {
      if (isCategories(config, input)) {
        categories.addAll(input.columns());
      }
    }
    categories.forEach(ranges::add);
    ranges.read(frames);
    List<ModelShape.Input> inputs = new ArrayList<>();
    for (int i = 0; i < spec.inputs().size(); i++) {
      InputSpec input = spec.inputs().get(i);
      List<Integer> counted = new ArrayList<>();
      if (isCategories(config, input)) {
        for (String column : input.columns()) {
          counted.add(categories(config, column, ranges));
        }
      }
      inputs.add(input(schema.inputs().get(i), counted));
    }
    long outputs =
        countsClasses && label != null
            ? ranges.classes(label.columns().get(0))
            : outputs(config, schema);
    return new ModelShape(inputs, outputs);
  }

  private static long outputs(TrainerConfig config, TensorSchema schema) {
    Integer configured = config.model().outputs();
    if (configured != null) {
      return configured;
    }
    TensorSpec label = schema.label();
    return label == null ? 1 : label.rowElements();
  }

  private static void requireClasses(InputSpec label, @Nullable TensorSpec tensor) {
    if (label.columns().size() != 1 || (tensor != null && !tensor.rowShape().isEmpty())) {
      throw new IllegalArgumentException(
          "Cannot count the classes of label %s: expected one number per row, got shape %s. Set model.outputs to the number of classes."
              .formatted(label.columns(), tensor == null ? "unknown" : tensor.rowShape()));
    }
  }

  private static boolean isCategories(TrainerConfig config, InputSpec input) {
    return config.model() instanceof ModelSpec.Tabular
        && input.type() != null
        && !input.type().isFloating();
  }

  /** As many as the configuration says, which have to be enough, or as many as there are. */
  private static int categories(TrainerConfig config, String column, ColumnRanges ranges) {
    int counted = ranges.categories(column);
    Integer given = configured(config).get(column);
    if (given != null && counted > given) {
      throw new IllegalArgumentException(
          "Cannot use column '%s' as categories: expected numbers from 0 to %d, as model.embeddings says, got %d. Raise it to at least %d, or use embeddings: auto."
              .formatted(column, given - 1, counted - 1, counted));
    }
    return given == null ? counted : given;
  }

  private static Map<String, Integer> configured(TrainerConfig config) {
    return config.model() instanceof ModelSpec.Tabular tabular ? tabular.embeddings() : Map.of();
  }

  /** An input of which nobody has looked at the rows. */
  static ModelShape.Input assumed(TrainerConfig config, InputSpec input, TensorSpec tensor) {
    List<Integer> categories = new ArrayList<>();
    if (isCategories(config, input)) {
      if (tensor.rowElements() == input.columns().size()) {
        for (String column : input.columns()) {
          categories.add(configured(config).getOrDefault(column, ASSUMED_CATEGORIES));
        }
      } else {
        categories.addAll(Collections.nCopies(tensor.rowElements(), ASSUMED_CATEGORIES));
      }
    }
    return input(tensor, categories);
  }

  private static ModelShape.Input input(TensorSpec tensor, List<Integer> categories) {
    return new ModelShape.Input(tensor.name(), tensor.rowShape(), tensor.type(), categories);
  }
}
