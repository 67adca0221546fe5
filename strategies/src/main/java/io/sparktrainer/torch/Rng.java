package io.sparktrainer.torch;

import java.util.HashMap;
import java.util.Map;
import org.bytedeco.pytorch.Generator;
import org.bytedeco.pytorch.GeneratorOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Random numbers of the calling thread. libtorch's default generator is one for the whole process;
 * ranks that are threads would draw from it in an order that changes from run to run, so layers
 * draw from this one, and a run is repeatable.
 */
public final class Rng {
  private static final ThreadLocal<Generator> CURRENT = ThreadLocal.withInitial(() -> create(0));
  private static final ThreadLocal<Map<Device, Generator>> ON_DEVICES =
      ThreadLocal.withInitial(HashMap::new);

  private Rng() {}

  private static Generator create(long seed) {
    NativeLibraries.load();
    return NativeScope.keep(torch.make_generator_cpu(seed));
  }

  /** Restarts the calling thread's sequence from {@code seed}. */
  public static void seed(long seed) {
    CURRENT.get().set_current_seed(seed);
  }

  /** Draws 63 random bits from the calling thread's sequence, such as the seed of another one. */
  public static long draw() {
    try (var scope = NativeScope.open()) {
      return Tensors.empty(DType.INT64, Device.CPU, 1).random_(generator()).item_long();
    }
  }

  /** The calling thread's generator, as an argument for libtorch's random functions on the CPU. */
  public static GeneratorOptional generator() {
    return new GeneratorOptional(CURRENT.get());
  }

  /**
   * A generator for tensors on {@code device}, as an argument for the next random function only: on
   * a GPU it starts from a number drawn from the calling thread's sequence, so that {@link
   * #state()} is all there is to save.
   */
  public static GeneratorOptional generator(Device device) {
    if (!device.isCuda()) {
      return generator();
    }
    Generator onDevice =
        ON_DEVICES
            .get()
            .computeIfAbsent(device, unused -> NativeScope.keep(CudaTorch.generator(device)));
    onDevice.set_current_seed(draw());
    return new GeneratorOptional(onDevice);
  }

  /** Where the calling thread's sequence stands: uint8 tensor, owned by the current scope. */
  public static Tensor state() {
    return CURRENT.get().get_state();
  }

  /** Continues from a {@link #state()} taken on this or another thread. */
  public static void restore(Tensor state) {
    CURRENT.get().set_state(state);
  }
}
