package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.nn.Block;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * A block and the parameters that are gathered when it is called.
 *
 * @param name the block's dotted name in the model, empty for the model itself
 * @param block the block
 * @param parameters what the unit owns, by the model's parameter names, in the model's order
 */
public record UnitPlan(String name, Block block, Map<String, Tensor> parameters) {
  boolean isRoot() {
    return name.isEmpty();
  }

  /** For messages. */
  String title() {
    return isRoot() ? "the model" : "unit \"" + name + "\"";
  }
}
