package io.sparktrainer.spark.config;

import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * Section {@code training}.
 *
 * @param epochs how often every row is used; 1 by default
 * @param batchSize rows per batch and rank; 32 by default
 * @param accumulate batches per update of the model; 1 by default
 * @param clipGradNorm largest 2-norm of all gradients together, or null for no limit
 * @param clipGradValue largest absolute value of each gradient element, or null for no limit
 * @param seed seed of the model's initial parameters and of dropout; 0 by default
 */
public record TrainingConfig(
    int epochs,
    int batchSize,
    int accumulate,
    @Nullable Double clipGradNorm,
    @Nullable Double clipGradValue,
    long seed)
    implements Serializable {
  public TrainingConfig {
    requirePositive("epochs", epochs);
    requirePositive("batch_size", batchSize);
    requirePositive("accumulate", accumulate);
    requirePositive("clip_grad_norm", clipGradNorm == null ? 1 : clipGradNorm);
    requirePositive("clip_grad_value", clipGradValue == null ? 1 : clipGradValue);
  }

  private static void requirePositive(String key, double value) {
    if (!(value > 0)) {
      throw new IllegalArgumentException(
          "Cannot use %s %s: expected more than 0.".formatted(key, value));
    }
  }

  public static TrainingConfig defaults() {
    return builder().build();
  }

  public static Builder builder() {
    return new Builder();
  }

  /** Sets values by name; what is not set keeps its default. */
  public static final class Builder {
    private int epochs = 1;
    private int batchSize = 32;
    private int accumulate = 1;
    private @Nullable Double clipGradNorm;
    private @Nullable Double clipGradValue;
    private long seed;

    public Builder epochs(int value) {
      this.epochs = value;
      return this;
    }

    /** Rows per batch and rank. */
    public Builder batchSize(int rows) {
      this.batchSize = rows;
      return this;
    }

    public Builder accumulate(int batches) {
      this.accumulate = batches;
      return this;
    }

    public Builder clipGradNorm(@Nullable Double norm) {
      this.clipGradNorm = norm;
      return this;
    }

    public Builder clipGradValue(@Nullable Double limit) {
      this.clipGradValue = limit;
      return this;
    }

    public Builder seed(long value) {
      this.seed = value;
      return this;
    }

    /**
     * @throws IllegalArgumentException if a value is not allowed
     */
    public TrainingConfig build() {
      return new TrainingConfig(epochs, batchSize, accumulate, clipGradNorm, clipGradValue, seed);
    }
  }
}
