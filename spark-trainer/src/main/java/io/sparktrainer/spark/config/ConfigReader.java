package io.sparktrainer.spark.config;

import static java.util.Objects.requireNonNull;

import io.sparktrainer.nn.Losses;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.optim.ScheduleSpec;
import java.util.List;
import org.yaml.snakeyaml.nodes.MappingNode;

/** Reads a whole configuration and reports every mistake in it at once. */
final class ConfigReader {
  static final String DEFAULT_OUTPUT = "./run";

  private ConfigReader() {}

  /**
   * @param name what to call the text in messages
   * @param overrides values to set on top, as {@code a.b=value}
   * @throws ConfigException with every mistake
   */
  static TrainerConfig read(String yaml, String name, List<String> overrides) {
    Problems problems = new Problems();
    YamlSource source = new YamlSource(name, problems);
    MappingNode tree = source.parse(yaml);
    // A text that is no YAML would be followed by a complaint about every key that it lacks.
    problems.throwIfAny();
    overrides.forEach(override -> source.override(tree, override));
    Section root = new Section("", name, tree, source, problems);
    DeviceConfig device = DeviceSection.read(root.section("device"));
    Losses loss = root.oneOf("loss", Losses.class, Losses.CROSS_ENTROPY);
    Section dataSection = root.section("data");
    DataConfig data = DataSection.read(dataSection, loss);
    if (data != null) {
      String join = TrainerConfig.joinProblem(device.strategy(), data.rows().balance());
      if (join != null) {
        dataSection.problem("balance", join);
      }
      if (data.label() != null && loss == Losses.OUTPUT) {
        dataSection.problem("label", "has no effect with loss output. Take it out.");
      }
    }
    Section modelSection = root.section("model", "type");
    String init = modelSection.text("init");
    ModelSpec model = ModelSection.read(modelSection);
    OptimizerSpec optimizer = OptimizerSection.read(root.section("optimizer", "type"));
    ScheduleSpec schedule = ScheduleSection.read(root.section("schedule", "type"));
    TrainingConfig training = TrainingSection.read(root.section("training"));
    MetricsConfig metrics = MetricsSection.read(root.section("metrics"));
    String output = root.text("output", DEFAULT_OUTPUT);
    root.notInThisVersion("checkpoint");
    root.finish();
    problems.throwIfAny();
    return new TrainerConfig(
        device,
        requireNonNull(data, "data"),
        requireNonNull(model, "model"),
        init,
        loss,
        requireNonNull(optimizer, "optimizer"),
        requireNonNull(schedule, "schedule"),
        training,
        metrics,
        output);
  }
}
