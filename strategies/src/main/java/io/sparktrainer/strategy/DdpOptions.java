package io.sparktrainer.strategy;

import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Options of {@code ddp}, with PyTorch's names, meanings and defaults.
 *
 * @param bucketCapMb size at which a gradient bucket is closed, in MiB; null (the default) means 25
 *     with a first bucket of 1, so that the first all-reduce starts early
 * @param gradientAsBucketView parameters' gradients are views of the buckets, which saves one copy
 *     of the gradients
 * @param staticGraph every step uses the same parameters in the same way
 * @param findUnusedParameters a step may leave some parameters without gradient
 * @param broadcastBuffers rank 0's buffers replace the others' before the first forward of every
 *     step and before an evaluation
 * @param syncBatchNorm batch normalisation takes its statistics over the rows of all ranks
 * @param compression what ranks send of their gradients
 * @param unevenInputs what happens when ranks have different numbers of steps
 */
public record DdpOptions(
    @Nullable Double bucketCapMb,
    boolean gradientAsBucketView,
    boolean staticGraph,
    boolean findUnusedParameters,
    boolean broadcastBuffers,
    boolean syncBatchNorm,
    GradientCompression compression,
    UnevenInputs unevenInputs) {
  public DdpOptions {
    Objects.requireNonNull(compression, "compression");
    Objects.requireNonNull(unevenInputs, "unevenInputs");
    if (bucketCapMb != null && !(bucketCapMb > 0)) {
      throw new IllegalArgumentException(
          "Cannot use bucket_cap_mb " + bucketCapMb + ": expected more than 0 MiB.");
    }
    if (syncBatchNorm && unevenInputs != UnevenInputs.REFUSE) {
      throw new IllegalArgumentException(
          "Cannot use sync_batch_norm with uneven_inputs %s: a rank without data cannot take part in the statistics of layers it does not run. Use uneven_inputs: refuse."
              .formatted(unevenInputs.name().toLowerCase(java.util.Locale.ROOT)));
    }
  }

  public static DdpOptions defaults() {
    return new Builder().build();
  }

  public static Builder builder() {
    return new Builder();
  }

  /** A builder that starts from these options. */
  public Builder toBuilder() {
    return new Builder()
        .bucketCapMb(bucketCapMb)
        .gradientAsBucketView(gradientAsBucketView)
        .staticGraph(staticGraph)
        .findUnusedParameters(findUnusedParameters)
        .broadcastBuffers(broadcastBuffers)
        .syncBatchNorm(syncBatchNorm)
        .compression(compression)
        .unevenInputs(unevenInputs);
  }

  /** Sets options by name; what is not set keeps its default. */
  public static final class Builder {
    private @Nullable Double bucketCapMb;
    private boolean gradientAsBucketView;
    private boolean staticGraph;
    private boolean findUnusedParameters;
    private boolean broadcastBuffers = true;
    private boolean syncBatchNorm;
    private GradientCompression compression = new GradientCompression.None();
    private UnevenInputs unevenInputs = UnevenInputs.REFUSE;

    public Builder bucketCapMb(@Nullable Double mebibytes) {
      this.bucketCapMb = mebibytes;
      return this;
    }

    public Builder gradientAsBucketView(boolean value) {
      this.gradientAsBucketView = value;
      return this;
    }

    public Builder staticGraph(boolean value) {
      this.staticGraph = value;
      return this;
    }

    public Builder findUnusedParameters(boolean value) {
      this.findUnusedParameters = value;
      return this;
    }

    public Builder broadcastBuffers(boolean value) {
      this.broadcastBuffers = value;
      return this;
    }

    public Builder syncBatchNorm(boolean value) {
      this.syncBatchNorm = value;
      return this;
    }

    public Builder compression(GradientCompression value) {
      this.compression = value;
      return this;
    }

    public Builder unevenInputs(UnevenInputs value) {
      this.unevenInputs = value;
      return this;
    }

    public DdpOptions build() {
      return new DdpOptions(
          bucketCapMb,
          gradientAsBucketView,
          staticGraph,
          findUnusedParameters,
          broadcastBuffers,
          syncBatchNorm,
          compression,
          unevenInputs);
    }
  }
}
