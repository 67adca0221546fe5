package io.sparktrainer.devicecheck;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.DeviceCommunicator;
import io.sparktrainer.devicecheck.Workload.Size;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.CudaTorch;
import io.sparktrainer.torch.Device;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/** The time of a step, here and in PyTorch, in turns, as medians. */
final class StepTimes {
  private static final int ROUNDS = 3;
  private static final Precision[] PRECISIONS = {Precision.NONE, Precision.BF16};
  private static final Workload[] WORKLOADS = {Workload.CNN, Workload.GPT};

  private final Device device;
  private final Size size;
  private final Report report;
  private final Map<String, List<Double>> ours = new TreeMap<>();
  private final Map<String, List<Double>> theirs = new TreeMap<>();
  private String torch = "PyTorch";

  StepTimes(Device device, Size size, Report report) {
    this.device = device;
    this.size = size;
    this.report = report;
  }

  /** Measures, with {@code eager} as the command that prints PyTorch's times; without it alone. */
  void run(String... eager) {
    List<String> problems = new ArrayList<>();
    for (int round = 0; round < ROUNDS; round++) {
      measure();
      if (eager.length > 0) {
        try {
          ask(eager);
        } catch (IOException | InterruptedException | IllegalStateException e) {
          problems.add(String.valueOf(e.getMessage()));
        }
      }
    }
    report.section(
        "Milliseconds per step, median of %d rounds".formatted(ROUNDS),
        "model and precision",
        "ours",
        torch,
        "ours / theirs");
    for (String name : ours.keySet()) {
      double mine = median(ours.get(name));
      report.row(
          () -> {
            if (eager.length == 0) {
              return "not measured | ";
            }
            if (!theirs.containsKey(name)) {
              throw new IllegalStateException("no time of PyTorch's: " + problems);
            }
            double other = median(theirs.get(name));
            return String.format(Locale.ROOT, "%.3f | %.3f", other, mine / other);
          },
          name,
          String.format(Locale.ROOT, "%.3f", mine));
    }
  }

  /**
   * Measures what it brings that collectives, and the copies of cpu_offload, run beside what is
   * computed. On one device a collective has nobody to wait for, so ddp shows the host's wait only.
   *
   * @param groups of one rank
   */
  void overlap(Function<StrategySpec, Communicator> groups) {
    int rounds = device.isCuda() ? ROUNDS : 1;
    report.section(
        "Milliseconds per step of a gpt in bf16, median of %d rounds".formatted(rounds),
        "strategy",
        "side by side",
        "one after the other",
        "gain");
    Map<String, StrategySpec> specs = new LinkedHashMap<>();
    specs.put("ddp", new StrategySpec.Ddp(1, DdpOptions.defaults()));
    specs.put("fsdp", new StrategySpec.Fsdp(1, FsdpOptions.defaults()));
    specs.put(
        "fsdp, cpu_offload",
        new StrategySpec.Fsdp(1, FsdpOptions.builder().cpuOffload(true).build()));
    specs.forEach(
        (name, spec) ->
            report.row(
                () -> {
                  List<Double> beside = new ArrayList<>();
                  List<Double> after = new ArrayList<>();
                  for (int round = 0; round < rounds; round++) {
                    beside.add(step(Workload.GPT, Precision.BF16, spec, groups.apply(spec)));
                    after.add(
                        step(
                            Workload.GPT,
                            Precision.BF16,
                            spec,
                            HostWaits.around(groups.apply(spec))));
                  }
                  double fast = median(beside);
                  double slow = median(after);
                  return String.format(Locale.ROOT, "%.3f | %.3f | %.3f", fast, slow, slow / fast);
                },
                name));
  }

  private void measure() {
    for (Workload workload : WORKLOADS) {
      for (Precision precision : PRECISIONS) {
        add(
            ours,
            name(workload.name(), precision.name()),
            step(workload, precision, new StrategySpec.None(0), DeviceCommunicator.alone(device)));
      }
    }
  }

  private static String name(String model, String precision) {
    return (model + " " + precision).toLowerCase(Locale.ROOT);
  }

  private static void add(Map<String, List<Double>> times, String name, double milliseconds) {
    times.computeIfAbsent(name, unused -> new ArrayList<>()).add(milliseconds);
  }

  private double step(
      Workload workload, Precision precision, StrategySpec spec, Communicator group) {
    ComputeOptions options = ComputeOptions.builder().device(device).precision(precision).build();
    int steps = size == Size.FULL && device.isCuda() ? 50 : 3;
    try (Session session = new Session(workload, size, spec, options, group)) {
      for (int i = 0; i < steps / 3 + 1; i++) {
        session.step();
      }
      waitForDevice();
      long start = System.nanoTime();
      for (int i = 0; i < steps; i++) {
        session.step();
      }
      waitForDevice();
      return (System.nanoTime() - start) / 1e6 / steps;
    }
  }

  private void waitForDevice() {
    if (device.isCuda()) {
      CudaTorch.synchronize(device);
    }
  }

  /** One line of JSON per time: {@code {"torch", "model", "precision", "milliseconds"}}. */
  private void ask(String... eager) throws IOException, InterruptedException {
    Process process =
        new ProcessBuilder(eager).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (var lines = process.inputReader()) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        JsonNode time = new ObjectMapper().readTree(line);
        torch = "PyTorch " + time.path("torch").asText();
        add(
            theirs,
            name(time.path("model").asText(), time.path("precision").asText()),
            time.path("milliseconds").asDouble());
      }
    }
    int code = process.waitFor();
    if (code != 0) {
      throw new IllegalStateException(String.join(" ", eager) + " ended with code " + code);
    }
  }

  private static double median(List<Double> values) {
    return values.stream().sorted().skip(values.size() / 2).findFirst().orElse(Double.NaN);
  }
}
