package io.sparktrainer.strategy;

import java.util.Set;

/**
 * Which blocks of a model become units of {@code fsdp}. A unit owns the parameters below it that no
 * unit further down owns; the whole model is always a unit and takes the rest.
 */
public sealed interface WrapPolicy {
  /**
   * Blocks that are marked as {@link io.sparktrainer.nn.ShardUnit}; the whole model as one unit if
   * none is.
   */
  record MarkedBlocks() implements WrapPolicy {}

  /**
   * Blocks with at least {@code minParameters} elements that no unit further down owns.
   *
   * @param minParameters at least 1
   */
  record MinParameters(long minParameters) implements WrapPolicy {
    public MinParameters {
      if (minParameters < 1) {
        throw new IllegalArgumentException(
            "Cannot wrap by size: expected min_parameters of at least 1, got "
                + minParameters
                + ".");
      }
    }
  }

  /**
   * Blocks of these classes.
   *
   * @param names simple or full class names, at least one
   */
  record ClassNames(Set<String> names) implements WrapPolicy {
    public ClassNames {
      names = Set.copyOf(names);
      if (names.isEmpty()) {
        throw new IllegalArgumentException(
            "Cannot wrap by class: expected at least one class name, got none.");
      }
    }
  }

  /** The whole model as one unit. */
  record WholeModel() implements WrapPolicy {}
}
