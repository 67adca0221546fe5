package io.sparktrainer.strategy.plan;

import java.util.List;

/**
 * Parameters that {@code fsdp} gathers and frees together.
 *
 * @param name dotted name of the block that makes the unit; empty for the whole model or what no
 *     other unit owns
 * @param parameters its parameters in registration order, without those of units inside it
 */
public record UnitOutline(String name, List<ParameterOutline> parameters) {
  public UnitOutline {
    parameters = List.copyOf(parameters);
  }

  /** Number of elements of all parameters. */
  public long numel() {
    return parameters.stream().mapToLong(ParameterOutline::numel).sum();
  }
}
