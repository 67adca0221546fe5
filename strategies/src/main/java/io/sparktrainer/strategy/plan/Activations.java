package io.sparktrainer.strategy.plan;

/**
 * What one micro-batch's forward pass holds for backward.
 *
 * @param bytes size on one rank
 * @param source how it was found
 */
public record Activations(long bytes, Source source) {
  /** How activations were found. */
  public enum Source {
    /** By running one batch, see {@link ActivationProbe}. */
    PROBED("measured by one batch"),
    /** From the shapes of the model's matrices: the model is too large to run here. */
    ESTIMATED("estimated from the shapes of matrices, not measured"),
    /** Not at all: they are left out. */
    UNKNOWN("unknown, left out");

    private final String words;

    Source(String words) {
      this.words = words;
    }

    @Override
    public String toString() {
      return words;
    }
  }

  /** Left out of the plan. */
  public static final Activations UNKNOWN = new Activations(0, Source.UNKNOWN);

  public Activations {
    if (bytes < 0) {
      throw new IllegalArgumentException(
          "Cannot plan with %d bytes of activations: expected 0 or more.".formatted(bytes));
    }
  }
}
