package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.yaml.snakeyaml.DumperOptions;
import org.yaml.snakeyaml.Yaml;

/** Writes a configuration with every default filled in. */
final class ConfigWriter {
  private ConfigWriter() {}

  static String write(TrainerConfig config) {
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("device", DeviceSection.write(config.device()));
    keys.put("data", DataSection.write(config.data()));
    Map<String, @Nullable Object> model = ModelSection.write(config.model());
    model.put("init", config.init());
    keys.put("model", model);
    keys.put("loss", Names.of(config.loss()));
    keys.put("optimizer", OptimizerSection.write(config.optimizer()));
    keys.put("schedule", ScheduleSection.write(config.schedule()));
    keys.put("training", TrainingSection.write(config.training()));
    keys.put("metrics", MetricsSection.write(config.metrics()));
    keys.put("output", config.output());
    DumperOptions options = new DumperOptions();
    options.setDefaultFlowStyle(DumperOptions.FlowStyle.BLOCK);
    return new Yaml(options).dump(keys);
  }
}
