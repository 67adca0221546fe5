package io.sparktrainer.engine;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.ddp.DdpStrategy;
import io.sparktrainer.strategy.single.SingleStrategy;

/** Makes one rank's side of the strategy that a specification names. */
public final class Strategies {
  private Strategies() {}

  /**
   * All ranks call it together.
   *
   * @param model this rank's model, taken over
   * @param communicator the group of all ranks, taken over
   * @throws IllegalArgumentException if the model or the group does not suit the strategy
   * @throws IllegalStateException if the model or the options differ between ranks
   */
  public static ParallelStrategy create(StrategySpec spec, Block model, Communicator communicator) {
    if (spec instanceof StrategySpec.Ddp ddp) {
      return new DdpStrategy(model, communicator, ddp.options());
    }
    return new SingleStrategy(model, communicator);
  }
}
