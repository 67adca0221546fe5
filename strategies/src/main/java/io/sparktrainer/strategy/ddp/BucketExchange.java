package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.strategy.GradientCompression;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/** How a full bucket is summed over the ranks. */
abstract class BucketExchange implements AutoCloseable {
  /** One bucket's sum under way. All ranks call the same methods in the same order of buckets. */
  interface Exchange {
    /** Starts what needs the first round's result; nothing where one round is enough. */
    default void secondRound() {}

    /** Waits until the bucket holds the sum. */
    void await();
  }

  /** What carries out {@code compression}. */
  static BucketExchange of(
      GradientCompression compression,
      List<String> names,
      List<Tensor> parameters,
      Communicator communicator) {
    if (compression instanceof GradientCompression.PowerSgd powerSgd) {
      return new PowerSgdExchange(powerSgd, names, parameters, communicator);
    }
    return new CastExchange(compression, communicator);
  }

  /** Starts summing {@code bucket} over the ranks; its tensors stay untouched until it is done. */
  abstract Exchange start(Bucket bucket);

  /** Called after all buckets of a backward pass are done. */
  void finishedPass() {}

  /** What this rank has to restore in order to go on as before, by name; owned by this object. */
  Map<String, Tensor> state() {
    return Map.of();
  }

  /**
   * Copies {@code state}, as {@link #state()} returned it.
   *
   * @throws IllegalArgumentException if it does not fit
   */
  void loadState(Map<String, Tensor> state) {
    if (!state.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot load the state of gradient compression: expected none, got "
              + state.keySet()
              + ". Set ddp.compression as it was when the state was saved.");
    }
  }

  @Override
  public void close() {}
}
