package io.sparktrainer.spark.config;

import io.sparktrainer.data.Balance;
import io.sparktrainer.data.MissingValues;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads and writes the keys of {@link RowOptions}. */
final class RowKeys {
  private static final List<String> NULL_POLICIES = List.of("fail", "drop", "{fill: NUMBER}");
  private static final List<String> NAN_POLICIES =
      List.of("fail", "drop", "keep", "{fill: NUMBER}");

  private RowKeys() {}

  static RowOptions read(Section section) {
    RowOptions defaults = RowOptions.defaults();
    return new RowOptions(
        policy(section, "nulls", NULL_POLICIES),
        policy(section, "nans", NAN_POLICIES),
        section.oneOf("balance", Balance.class, defaults.balance()),
        section.integer("memory_budget_mb", 0, defaults.memoryBudgetMb()),
        section.text("spill_directory"));
  }

  private static MissingValues policy(Section section, String key, List<String> allowed) {
    Section policy = section.section(key, "policy");
    Double fill = policy.number("fill", NumberRange.ANY);
    String name = policy.text("policy", "fail");
    policy.finish();
    if (fill != null) {
      return MissingValues.fill(fill);
    }
    if (!allowed.contains(name)) {
      section.unknownName(key, name, allowed);
    }
    return switch (name) {
      case "drop" -> MissingValues.drop();
      case "keep" -> MissingValues.keep();
      default -> MissingValues.fail();
    };
  }

  static void write(RowOptions rows, Map<String, @Nullable Object> keys) {
    keys.put("nulls", policy(rows.nulls()));
    keys.put("nans", policy(rows.nans()));
    keys.put("balance", Names.of(rows.balance()));
    keys.put("memory_budget_mb", rows.memoryBudgetMb());
    keys.put("spill_directory", rows.spillDirectory());
  }

  private static Object policy(MissingValues policy) {
    if (policy instanceof MissingValues.Fill fill) {
      return Map.of("fill", fill.value());
    }
    if (policy instanceof MissingValues.Drop) {
      return "drop";
    }
    return policy instanceof MissingValues.Keep ? "keep" : "fail";
  }
}
