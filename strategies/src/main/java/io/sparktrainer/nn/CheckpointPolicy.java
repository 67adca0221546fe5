package io.sparktrainer.nn;

import java.util.Set;

/** Which blocks of a model are checkpointed. */
@FunctionalInterface
public interface CheckpointPolicy {
  /**
   * @param name the block's dotted name in the model; empty for the model itself
   */
  boolean chooses(String name, Block block);

  /** Every {@link ShardUnit}, such as each block of a transformer. */
  static CheckpointPolicy units() {
    return (name, block) -> block instanceof ShardUnit;
  }

  /** Blocks of these very classes. */
  static CheckpointPolicy ofClasses(Set<Class<? extends Block>> classes) {
    Set<Class<? extends Block>> chosen = Set.copyOf(classes);
    return (name, block) -> chosen.contains(block.getClass());
  }

  /** Blocks of these dotted names. */
  static CheckpointPolicy named(Set<String> names) {
    Set<String> chosen = Set.copyOf(names);
    return (name, block) -> chosen.contains(name);
  }
}
