package io.sparktrainer.data;

import java.util.Collections;
import org.apache.spark.api.java.JavaRDD;
import org.jspecify.annotations.Nullable;

/** A DataFrame made ready on the driver for {@code worldSize} ranks. */
public final class PreparedData {
  private final DataSpec spec;
  private final ReadPlan plan;
  private final ShareLayout layout;
  private final boolean hasValidation;
  private final JavaRDD<byte[]> rdd;
  private final RowCounts counts;
  private boolean materialized;

  PreparedData(
      DataSpec spec,
      ReadPlan plan,
      ShareLayout layout,
      boolean hasValidation,
      JavaRDD<byte[]> rdd,
      RowCounts counts) {
    this.spec = spec;
    this.plan = plan;
    this.layout = layout;
    this.hasValidation = hasValidation;
    this.rdd = rdd;
    this.counts = counts;
  }

  /** The tensors that batches will hold; a model takes its sizes from here. */
  public TensorSchema schema() {
    return plan.schema();
  }

  /** The spec it was made from. */
  public DataSpec spec() {
    return spec;
  }

  /** Ranks. */
  public int worldSize() {
    return layout.worldSize();
  }

  /**
   * Encoded rows in exactly {@link #worldSize()} partitions; partition r belongs to rank r. Fit for
   * one barrier stage: {@code data.rdd().rdd().barrier().mapPartitions(...)}, whose task hands its
   * iterator to {@link RankReader#read}. An element may be valid only until the next one is asked
   * for.
   */
  public JavaRDD<byte[]> rdd() {
    return rdd;
  }

  /** The reader that tasks use. */
  public RankReader reader() {
    return new RankReader(spec, plan, layout, hasValidation);
  }

  /**
   * Runs the DataFrame's own work now, in an ordinary job, so that the barrier stage holds its
   * slots for training only, and mistakes in the data show before it starts. With {@link
   * Balance#REPARTITION} the rows lie in Spark's shuffle files afterwards, and neither the barrier
   * stage nor a second one after a failure runs the DataFrame's work again. With the other policies
   * this does nothing: rows are then read inside the barrier stage.
   *
   * @throws IllegalArgumentException where there are 0 rows, or fewer than ranks, or a value can't
   *     be read (naming column and row)
   */
  public void materialize() {
    if (materialized || spec.balance() != Balance.REPARTITION) {
      return;
    }
    try {
      rdd.mapPartitions(blocks -> Collections.<Integer>emptyIterator())
          .collectPartitions(new int[] {0});
    } catch (Exception e) {
      throw Failures.clearest(e);
    }
    materialized = true;
    requireRows("training", counts.total(Block.TRAINING));
    if (hasValidation) {
      requireRows("validation", counts.total(Block.VALIDATION));
    }
  }

  private void requireRows(String set, long rows) {
    int worldSize = layout.worldSize();
    if (rows == 0) {
      throw new IllegalArgumentException(
          "Cannot train: expected %s rows, got 0. Check the DataFrame's filters and what is dropped."
              .formatted(set));
    }
    if (rows < worldSize && set.equals("training")) {
      throw new IllegalArgumentException(
          "Cannot train on %d ranks: expected at least one row per rank, got %d rows. Use fewer ranks."
              .formatted(worldSize, rows));
    }
  }

  /**
   * Steps and batches of an epoch, where they are known on the driver: with {@link
   * Balance#REPARTITION} after {@link #materialize()}, else null. All ranks know them after {@link
   * RankData#agree}.
   */
  public @Nullable EpochPlan plan() {
    if (!materialized) {
      return null;
    }
    int worldSize = layout.worldSize();
    long[] rows = new long[worldSize];
    for (int rank = 0; rank < worldSize; rank++) {
      rows[rank] = (trainingRows() + worldSize - 1 - rank) / worldSize;
    }
    return EpochPlan.of(rows, spec.batchRows(), spec.balance());
  }

  /** Training rows over all ranks, or -1 before {@link #materialize()}. */
  public long trainingRows() {
    return materialized ? counts.total(Block.TRAINING) : -1;
  }

  /** Validation rows over all ranks, or -1 before {@link #materialize()}. */
  public long validationRows() {
    return materialized ? counts.total(Block.VALIDATION) : -1;
  }
}
