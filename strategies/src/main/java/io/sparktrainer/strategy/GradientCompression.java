package io.sparktrainer.strategy;

/**
 * What ranks send of their gradients. Results are always copied back in the gradients' own type.
 */
public sealed interface GradientCompression {
  /** The name in a configuration. */
  String name();

  /** Gradients as they are. */
  record None() implements GradientCompression {
    @Override
    public String name() {
      return "none";
    }
  }

  /**
   * float32 and float64 gradients are sent and added up in bfloat16: half the bytes, 8 bits of
   * precision, the whole range of float32.
   */
  record Bf16() implements GradientCompression {
    @Override
    public String name() {
      return "bf16";
    }
  }

  /**
   * float32 and float64 gradients are sent and added up in float16: half the bytes, 11 bits of
   * precision, at most 65504. They are divided by the number of ranks before, so that the sum is in
   * range where the mean is.
   */
  record Fp16() implements GradientCompression {
    @Override
    public String name() {
      return "fp16";
    }
  }

  /**
   * PowerSGD (Vogels et al., arXiv 1905.13727): a gradient of n rows and m columns is sent as two
   * factors of {@code rank} columns, n x rank and m x rank. Vectors, and matrices for which it does
   * not pay, are sent whole.
   *
   * @param rank columns of the factors, at least 1; at most the smaller side of a matrix is used
   * @param startIteration reductions before which everything is sent whole, 0 or more
   * @param minCompressionRate a matrix is factored if that sends less than 1/minCompressionRate of
   *     its elements
   * @param errorFeedback what the factors lost is added to the next gradient, at the price of one
   *     copy of the gradients
   * @param warmStart each reduction starts from the factors of the one before
   * @param seed start of the random first factors
   */
  record PowerSgd(
      int rank,
      long startIteration,
      double minCompressionRate,
      boolean errorFeedback,
      boolean warmStart,
      long seed)
      implements GradientCompression {
    public PowerSgd {
      if (rank < 1 || startIteration < 0 || !(minCompressionRate > 0)) {
        throw new IllegalArgumentException(
            "Cannot use powersgd: expected a rank of at least 1, start_iteration of at least 0 and min_compression_rate above 0, got %d, %d and %s."
                .formatted(rank, startIteration, minCompressionRate));
      }
    }

    @Override
    public String name() {
      return "powersgd";
    }

    /** PyTorch's defaults: rank 1 from iteration 1000, rate 2, error feedback and warm start. */
    public static Builder builder() {
      return new Builder();
    }

    /** Sets options by name; what is not set keeps its default. */
    public static final class Builder {
      private int rank = 1;
      private long startIteration = 1000;
      private double minCompressionRate = 2;
      private boolean errorFeedback = true;
      private boolean warmStart = true;
      private long seed;

      public Builder rank(int columns) {
        this.rank = columns;
        return this;
      }

      public Builder startIteration(long iterations) {
        this.startIteration = iterations;
        return this;
      }

      public Builder minCompressionRate(double rate) {
        this.minCompressionRate = rate;
        return this;
      }

      public Builder errorFeedback(boolean value) {
        this.errorFeedback = value;
        return this;
      }

      public Builder warmStart(boolean value) {
        this.warmStart = value;
        return this;
      }

      public Builder seed(long value) {
        this.seed = value;
        return this;
      }

      public PowerSgd build() {
        return new PowerSgd(
            rank, startIteration, minCompressionRate, errorFeedback, warmStart, seed);
      }
    }
  }
}
