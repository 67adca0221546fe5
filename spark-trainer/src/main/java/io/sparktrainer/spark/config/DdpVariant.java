package io.sparktrainer.spark.config;

import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.GradientCompression;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.UnevenInputs;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code strategy: ddp}. */
final class DdpVariant implements Variant<StrategySpec> {
  @Override
  public String name() {
    return "ddp";
  }

  @Override
  public @Nullable StrategySpec read(Section section) {
    Long workers = section.integer("workers", 1);
    if (!section.has("workers")) {
      section.missing("workers", "the number of ranks, such as 2");
    }
    DdpOptions options = options(section.section("ddp"));
    if (workers == null || options == null) {
      return null;
    }
    return section.build(() -> new StrategySpec.Ddp(Math.toIntExact(workers), options));
  }

  /** Reads {@code ddp}; null after a mistake was reported. */
  static @Nullable DdpOptions options(Section section) {
    DdpOptions defaults = DdpOptions.defaults();
    DdpOptions.Builder builder =
        DdpOptions.builder()
            .bucketCapMb(section.number("bucket_cap_mb", NumberRange.POSITIVE))
            .gradientAsBucketView(
                section.flag("gradient_as_bucket_view", defaults.gradientAsBucketView()))
            .staticGraph(section.flag("static_graph", defaults.staticGraph()))
            .findUnusedParameters(
                section.flag("find_unused_parameters", defaults.findUnusedParameters()))
            .broadcastBuffers(section.flag("broadcast_buffers", defaults.broadcastBuffers()))
            .syncBatchNorm(section.flag("sync_batch_norm", defaults.syncBatchNorm()))
            .unevenInputs(
                section.oneOf("uneven_inputs", UnevenInputs.class, defaults.unevenInputs()));
    GradientCompression compression = CompressionKeys.read(section);
    if (compression != null) {
      builder.compression(compression);
    }
    section.finish();
    return section.build(builder::build);
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(StrategySpec value) {
    if (!(value instanceof StrategySpec.Ddp ddp)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("workers", ddp.workers());
    keys.put("ddp", write(ddp.options()));
    return keys;
  }

  /** The keys of {@code ddp}. */
  static Map<String, @Nullable Object> write(DdpOptions value) {
    Map<String, @Nullable Object> options = new LinkedHashMap<>();
    options.put("bucket_cap_mb", value.bucketCapMb());
    options.put("gradient_as_bucket_view", value.gradientAsBucketView());
    options.put("static_graph", value.staticGraph());
    options.put("find_unused_parameters", value.findUnusedParameters());
    options.put("broadcast_buffers", value.broadcastBuffers());
    options.put("sync_batch_norm", value.syncBatchNorm());
    options.put("uneven_inputs", value.unevenInputs().name().toLowerCase(Locale.ROOT));
    options.put("compression", CompressionKeys.write(value.compression()));
    return options;
  }
}
