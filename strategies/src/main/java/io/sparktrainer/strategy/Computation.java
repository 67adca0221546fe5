package io.sparktrainer.strategy;

import io.sparktrainer.nn.ActivationCheckpointing;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Runs one model as {@link ComputeOptions} say: in the chosen precision, with the chosen blocks
 * checkpointed. Used by one thread at a time.
 */
public final class Computation implements AutoCloseable {
  private static final Pattern MISSING_HALF =
      Pattern.compile("\"(\\w+)\" not implemented for 'Half'");

  private final Block model;
  private final Precision precision;
  private final @Nullable ActivationCheckpointing checkpointing;

  /**
   * Installs checkpointing on {@code model}, so this comes before a strategy's own interceptors.
   *
   * @throws IllegalArgumentException if the checkpointing policy chooses no block
   */
  public Computation(Block model, ComputeOptions options) {
    this.model = model;
    this.precision = options.precision();
    this.checkpointing =
        options.activationCheckpointing() == null
            ? null
            : ActivationCheckpointing.install(model, options.activationCheckpointing());
  }

  /** The loss of the model's output, float32 where precision is mixed. */
  public Tensor loss(Tensor[] inputs, Tensor target, Loss loss) {
    return loss(inputs, target, null, loss);
  }

  /**
   * The same with weights.
   *
   * @param weight weights of the rows, or null
   */
  public Tensor loss(Tensor[] inputs, Tensor target, @Nullable Tensor weight, Loss loss) {
    try (var cast = precision.open(Device.of(target))) {
      Tensor output = full(model.call(inputs));
      return weight == null ? loss.of(output, target) : loss.weighted(output, target, weight);
    }
  }

  /** The model's output, float32 where precision is mixed. */
  public Tensor output(Tensor... inputs) {
    if (inputs.length == 0) {
      return model.call(inputs);
    }
    try (var cast = precision.open(Device.of(inputs[0]))) {
      return full(model.call(inputs));
    }
  }

  /** Losses and callers see full precision, as the sums in them need it. */
  private Tensor full(Tensor output) {
    DType dtype = DType.of(output);
    boolean half = dtype == DType.BFLOAT16 || dtype == DType.FLOAT16;
    return precision != Precision.NONE && half ? output.to(DType.FLOAT32.scalarType()) : output;
  }

  /** Frees what is kept for calls that backward has not reached. Call it after each backward. */
  public void release() {
    if (checkpointing != null) {
      checkpointing.release();
    }
  }

  /** A failure of forward or backward as the user should see it. */
  public RuntimeException explain(RuntimeException failure) {
    RuntimeException cause = checkpointing == null ? failure : checkpointing.causeOf(failure);
    Matcher missing = MISSING_HALF.matcher(String.valueOf(cause.getMessage()));
    if (precision == Precision.FP16 && missing.find()) {
      return new UnsupportedOperationException(
          "Cannot compute with mixed_precision fp16: expected float16 versions of all operations, got none of %s on this device. Use bf16, or fp16 on a GPU."
              .formatted(missing.group(1)),
          cause);
    }
    return cause;
  }

  @Override
  public void close() {
    if (checkpointing != null) {
      checkpointing.close();
    }
  }
}
