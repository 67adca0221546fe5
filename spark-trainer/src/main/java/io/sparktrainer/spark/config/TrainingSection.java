package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes {@code training}. */
final class TrainingSection {
  private TrainingSection() {}

  static TrainingConfig read(Section section) {
    TrainingConfig defaults = TrainingConfig.defaults();
    Long seed = section.integer("seed", Long.MIN_VALUE);
    TrainingConfig training =
        new TrainingConfig(
            section.integer("epochs", 1, defaults.epochs()),
            section.integer("batch_size", 1, defaults.batchSize()),
            section.integer("accumulate", 1, defaults.accumulate()),
            section.number("clip_grad_norm", NumberRange.POSITIVE),
            section.number("clip_grad_value", NumberRange.POSITIVE),
            seed == null ? defaults.seed() : seed);
    section.finish();
    return training;
  }

  static Map<String, @Nullable Object> write(TrainingConfig training) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("epochs", training.epochs());
    keys.put("batch_size", training.batchSize());
    keys.put("accumulate", training.accumulate());
    keys.put("clip_grad_norm", training.clipGradNorm());
    keys.put("clip_grad_value", training.clipGradValue());
    keys.put("seed", training.seed());
    return keys;
  }
}
