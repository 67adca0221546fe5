package io.sparktrainer.devicecheck;

import io.sparktrainer.checkpoint.Safetensors;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.DeviceCommunicator;
import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.NcclId;
import io.sparktrainer.comm.NcclRendezvous;
import io.sparktrainer.devicecheck.Workload.Size;
import io.sparktrainer.nn.Block;
import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.parity.DeviceParity;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.FsdpOptions;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.strategy.WrapPolicy;
import io.sparktrainer.strategy.plan.Activations;
import io.sparktrainer.strategy.plan.Machines;
import io.sparktrainer.strategy.plan.ModelOutline;
import io.sparktrainer.strategy.plan.Planner;
import io.sparktrainer.strategy.plan.StepOutline;
import io.sparktrainer.torch.CudaDevice;
import io.sparktrainer.torch.CudaDevices;
import io.sparktrainer.torch.CudaTorch;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneId;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Shows on one GPU what no machine without one can: parity with PyTorch's runs, mixed precision,
 * memory against the planner, {@code cpu_offload}, a state written and read, and the time of a step
 * beside PyTorch's. Arguments: {@code cuda} or {@code cpu}, {@code full} or {@code small}, the file
 * for the report, and optionally the command that runs {@code eager.py}. The exit code is 0 only if
 * all checks passed.
 */
public final class DeviceCheck {
  private static final int PEER_SECONDS = 60;
  private static final int TRAINING_STEPS = 20;
  private static final double MEMORY_TOLERANCE = 0.1;
  private static final double MIB = 1 << 20;
  private static final StrategySpec NONE = new StrategySpec.None(0);
  private static final StrategySpec DDP = new StrategySpec.Ddp(1, DdpOptions.defaults());
  private static final StrategySpec FSDP = new StrategySpec.Fsdp(1, FsdpOptions.defaults());

  private final Device device;
  private final Size size;
  private final Report report = new Report();

  private DeviceCheck(Device device, Size size) {
    this.device = device;
    this.size = size;
  }

  public static void main(String[] args) throws IOException {
    Device device = args[0].equals("cuda") ? Device.cuda(0) : Device.CPU;
    var check = new DeviceCheck(device, Size.valueOf(args[1].toUpperCase(Locale.ROOT)));
    String[] eager = Arrays.copyOfRange(args, 3, args.length);
    check.run(eager);
    Files.writeString(Path.of(args[2]), check.report.toString());
    check.report.failures().forEach(failure -> System.err.println("FAILED " + failure));
    System.exit(check.report.failures().isEmpty() ? 0 : 1);
  }

  private void run(String... eager) {
    report.line("# Device check, " + LocalDate.now(ZoneId.systemDefault()));
    report.line("");
    NativeLibraries.load();
    if (device.isCuda()) {
      CudaTorch.load();
      for (CudaDevice each : CudaDevices.list()) {
        report.line("- " + each);
      }
    } else {
      report.line("- no GPU: this run tries the program, not a device");
    }
    parity();
    training();
    memory();
    offload();
    state();
    StepTimes times = new StepTimes(device, size, report);
    times.overlap(this::group);
    times.run(eager);
  }

  private Communicator group(StrategySpec spec) {
    return spec instanceof StrategySpec.None || !device.isCuda()
        ? DeviceCommunicator.alone(device)
        : new DeviceCommunicator(
            new LocalCommunicator(),
            NcclRendezvous.connect(NcclId.create(), 0, 1, device, PEER_SECONDS));
  }

  private ComputeOptions options(Precision precision) {
    return ComputeOptions.builder().device(device).precision(precision).build();
  }

  private Session session(Workload workload, StrategySpec spec, Precision precision) {
    return new Session(workload, size, spec, options(precision), group(spec));
  }

  private void parity() {
    // PyTorch's runs were made without TensorFloat32, which cuDNN uses unless told.
    torch.globalContext().setAllowTF32CuDNN(false);
    report.section("Parity with PyTorch's reference runs", "case", "strategy", "deviations");
    for (DeviceParity.Run run : DeviceParity.runs()) {
      report.row(
          () -> DeviceParity.check(run, device, () -> group(run.strategy())),
          run.name(),
          run.strategy().name());
    }
    torch.globalContext().setAllowTF32CuDNN(true);
  }

  private void training() {
    report.section(
        "Training, %d steps".formatted(TRAINING_STEPS), "model", "strategy", "precision", "loss");
    for (Workload workload : new Workload[] {Workload.CNN, Workload.GPT}) {
      for (StrategySpec spec : new StrategySpec[] {NONE, DDP, FSDP}) {
        for (Precision precision : Precision.values()) {
          if (precision == Precision.FP16 && !device.isCuda()) {
            continue; // libtorch has no float16 convolution on the CPU
          }
          report.row(
              () -> train(workload, spec, precision),
              workload.name(),
              spec.name(),
              precision.name());
        }
      }
    }
  }

  private String train(Workload workload, StrategySpec spec, Precision precision) {
    try (Session session = session(workload, spec, precision)) {
      double first = session.loss();
      for (int step = 2; step < TRAINING_STEPS; step++) {
        session.step();
      }
      double last = session.loss();
      if (!(last < first)) {
        throw new AssertionError("expected a lower loss than %s, got %s".formatted(first, last));
      }
      return "%.4f to %.4f".formatted(first, last);
    }
  }

  private void memory() {
    if (!device.isCuda()) {
      return;
    }
    report.section(
        "Memory, against the planner", "strategy", "predicted MiB", "peak MiB", "peak / predicted");
    for (StrategySpec spec : new StrategySpec[] {NONE, DDP, FSDP}) {
      long predicted = predict(spec);
      String[] measured = new String[1];
      report.row(
          () -> {
            long peak = peak(spec);
            measured[0] = "%.1f".formatted(peak / MIB);
            double ratio = (double) peak / predicted;
            if (Math.abs(ratio - 1) > MEMORY_TOLERANCE) {
              throw new AssertionError("%.1f MiB, %.3f of it".formatted(peak / MIB, ratio));
            }
            return "%.1f | %.3f".formatted(peak / MIB, ratio);
          },
          spec.name(),
          "%.1f".formatted(predicted / MIB));
    }
  }

  private long predict(StrategySpec spec) {
    ModelOutline outline =
        ModelOutline.of(() -> Workload.MLP.model(size), new WrapPolicy.MarkedBlocks());
    StepOutline step = StepOutline.of(OptimizerSpec.adamW().build(), Activations.UNKNOWN);
    Machines machines =
        new Machines(Device.Type.CUDA, CudaDevices.get(device.index()).totalBytes(), 1, 1);
    return new Planner(outline, step, machines).cost(spec).memory().peak();
  }

  private long peak(StrategySpec spec) {
    try (Session session = session(Workload.MLP, spec, Precision.NONE)) {
      session.loss();
      session.loss();
      CudaTorch.synchronize(device);
      CudaTorch.resetPeak(device);
      session.loss();
      session.loss();
      return CudaTorch.peakBytes(device);
    }
  }

  private void offload() {
    if (!device.isCuda()) {
      return;
    }
    report.section("cpu_offload", "strategy", "result");
    report.row(
        () -> {
          StrategySpec offloaded =
              new StrategySpec.Fsdp(1, FsdpOptions.builder().cpuOffload(true).build());
          double expected;
          try (Session session = session(Workload.MLP, FSDP, Precision.NONE)) {
            session.loss();
            expected = session.loss();
          }
          double got;
          try (Session session = session(Workload.MLP, offloaded, Precision.NONE)) {
            session.loss();
            got = session.loss();
          }
          if (Math.abs(got - expected) > 1e-4 * Math.abs(expected)) {
            throw new AssertionError("expected a loss of %s, got %s".formatted(expected, got));
          }
          return "loss %.6f and %.6f; peak %.1f MiB with (planned %.1f), %.1f MiB without"
              .formatted(
                  got, expected, peak(offloaded) / MIB, predict(offloaded) / MIB, peak(FSDP) / MIB);
        },
        "fsdp");
  }

  private void state() {
    report.section("State written and read", "strategy", "result");
    for (StrategySpec spec : new StrategySpec[] {NONE, DDP, FSDP}) {
      report.row(() -> writeAndRead(spec), spec.name());
    }
  }

  private String writeAndRead(StrategySpec spec) throws IOException {
    Path file = Files.createTempFile("state", ".safetensors");
    try (var scope = NativeScope.open();
        Session session = session(Workload.GPT, spec, Precision.NONE)) {
      session.loss();
      session.model().eval();
      Tensor expected = session.output().cpu();
      Safetensors.write(file, session.state(), Map.of());
      try (Block fresh = Workload.GPT.model(size)) {
        Map<String, Tensor> read = Safetensors.read(file);
        fresh.state().forEach((name, tensor) -> Tensors.overwrite(tensor, read.get(name)));
        fresh.moveTo(device);
        fresh.eval();
        Tensor input = Workload.GPT.input(size);
        Tensor got = fresh.call(input.to(device.toNative(), input.scalar_type())).cpu();
        double difference = got.sub(expected).abs().max().item_double();
        if (!(difference < 1e-4)) {
          throw new AssertionError("outputs differ by " + difference);
        }
        return "%d bytes, outputs equal within %.1e".formatted(Files.size(file), difference);
      }
    } finally {
      Files.delete(file);
    }
  }
}
