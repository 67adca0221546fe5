package io.sparktrainer.parity;

import com.fasterxml.jackson.databind.JsonNode;
import io.sparktrainer.optim.AdamBuilder;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.MixedPrecision;
import io.sparktrainer.strategy.ShardingStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.DType;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Consumer;
import org.opentest4j.TestAbortedException;

/**
 * Reads a case's optimizer and strategy. What this project does not have is an aborted test that
 * names it.
 */
final class GoldenSpecs {
  private GoldenSpecs() {}

  static OptimizerSpec optimizer(JsonNode json) {
    String name = json.path("name").asText();
    return switch (name) {
      case "sgd" -> {
        var sgd = OptimizerSpec.sgd();
        each(
            json,
            "optimizer sgd",
            Map.of(
                "lr", value -> sgd.lr(value.doubleValue()),
                "momentum", value -> sgd.momentum(value.doubleValue()),
                "dampening", value -> sgd.dampening(value.doubleValue()),
                "nesterov", value -> sgd.nesterov(value.booleanValue()),
                "weight_decay", value -> sgd.weightDecay(value.doubleValue())));
        yield sgd.build();
      }
      case "adam" -> adam(json, OptimizerSpec.adam());
      case "adamw" -> adam(json, OptimizerSpec.adamW());
      default -> throw missing("optimizer " + name);
    };
  }

  private static <S extends OptimizerSpec> S adam(JsonNode json, AdamBuilder<S> adam) {
    each(
        json,
        "optimizer " + json.path("name").asText(),
        Map.of(
            "lr", value -> adam.lr(value.doubleValue()),
            "betas",
                value -> adam.beta1(value.get(0).doubleValue()).beta2(value.get(1).doubleValue()),
            "eps", value -> adam.eps(value.doubleValue()),
            "weight_decay", value -> adam.weightDecay(value.doubleValue()),
            "amsgrad", value -> adam.amsgrad(value.booleanValue())));
    return adam.build();
  }

  static StrategySpec strategy(JsonNode json, int world) {
    String name = json.path("name").asText();
    return switch (name) {
      case "none" -> {
        each(json, "strategy none", Map.of());
        yield new StrategySpec.None(0);
      }
      case "ddp" -> {
        var ddp = DdpOptions.builder();
        each(
            json,
            "strategy ddp",
            Map.of(
                "bucket_cap_mb", value -> ddp.bucketCapMb(value.doubleValue()),
                "gradient_as_bucket_view", value -> ddp.gradientAsBucketView(value.booleanValue()),
                "static_graph", value -> ddp.staticGraph(value.booleanValue()),
                "find_unused_parameters", value -> ddp.findUnusedParameters(value.booleanValue()),
                "broadcast_buffers", value -> ddp.broadcastBuffers(value.booleanValue())));
        yield new StrategySpec.Ddp(world, ddp.build());
      }
      case "fsdp" -> new StrategySpec.Fsdp(world, fsdp(json));
      default -> throw missing("strategy " + name);
    };
  }

  private static FsdpOptions fsdp(JsonNode json) {
    var fsdp = FsdpOptions.builder();
    DType[] types = new DType[2];
    each(
        json,
        "strategy fsdp",
        Map.of(
            "sharding",
            value -> fsdp.shardingStrategy(ShardingStrategy.valueOf(value.asText())),
            "shard_group",
            value -> fsdp.shardGroupSize(value.intValue()),
            "mixed_precision",
            value -> types[0] = dtype(value),
            "reduce_dtype",
            value -> types[1] = dtype(value)));
    return fsdp.mixedPrecision(new MixedPrecision(types[0], types[1], null)).build();
  }

  private static DType dtype(JsonNode json) {
    return switch (json.asText()) {
      case "bf16" -> DType.BFLOAT16;
      case "f16" -> DType.FLOAT16;
      case "f32" -> DType.FLOAT32;
      default -> throw missing("type " + json.asText());
    };
  }

  /** Hands every option to the setter of its name. */
  private static void each(JsonNode json, String where, Map<String, Consumer<JsonNode>> setters) {
    Map<String, Consumer<JsonNode>> known = new HashMap<>(setters);
    known.put("name", value -> {});
    for (Iterator<String> keys = json.fieldNames(); keys.hasNext(); ) {
      String key = keys.next();
      Consumer<JsonNode> setter = known.get(key);
      if (setter == null) {
        throw missing("option " + key + " of " + where);
      }
      setter.accept(json.get(key));
    }
  }

  static TestAbortedException missing(String what) {
    return new TestAbortedException("missing: " + what);
  }
}
