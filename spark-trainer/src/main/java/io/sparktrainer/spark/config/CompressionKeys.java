package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.strategy.GradientCompression.PowerSgd;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * {@code compression: none | bf16 | fp16 | powersgd}, or a section with that as its {@code type}.
 */
final class CompressionKeys {
  private enum Kind {
    NONE,
    BF16,
    FP16,
    POWERSGD
  }

  private CompressionKeys() {}

  /** Reads the key; null after a mistake was reported. */
  static @Nullable GradientCompression read(Section ddp) {
    Section section = ddp.section("compression", "type");
    Kind kind = section.oneOf("type", Kind.class, Kind.NONE);
    if (kind == Kind.POWERSGD) {
      return powerSgd(section);
    }
    section.finish();
    return switch (kind) {
      case NONE -> new GradientCompression.None();
      case BF16 -> new GradientCompression.Bf16();
      case FP16 -> new GradientCompression.Fp16();
      case POWERSGD -> null;
    };
  }

  private static @Nullable PowerSgd powerSgd(Section section) {
    PowerSgd defaults = PowerSgd.builder().build();
    Long start = section.integer("start_iteration", 0);
    Long seed = section.integer("seed", 0);
    PowerSgd.Builder builder =
        PowerSgd.builder()
            .rank(section.integer("rank", 1, defaults.rank()))
            .startIteration(start == null ? defaults.startIteration() : start)
            .minCompressionRate(
                section.number(
                    "min_compression_rate", NumberRange.POSITIVE, defaults.minCompressionRate()))
            .errorFeedback(section.flag("error_feedback", defaults.errorFeedback()))
            .warmStart(section.flag("warm_start", defaults.warmStart()))
            .seed(seed == null ? defaults.seed() : seed);
    section.finish();
    return section.build(builder::build);
  }

  /** The value of {@code compression}. */
  static Object write(GradientCompression value) {
    if (!(value instanceof PowerSgd powerSgd)) {
      return value.name();
    }
    Map<String, @Nullable Object> options = new LinkedHashMap<>();
    options.put("type", powerSgd.name());
    options.put("rank", powerSgd.rank());
    options.put("start_iteration", powerSgd.startIteration());
    options.put("min_compression_rate", powerSgd.minCompressionRate());
    options.put("error_feedback", powerSgd.errorFeedback());
    options.put("warm_start", powerSgd.warmStart());
    options.put("seed", powerSgd.seed());
    return options;
  }
}
