package io.sparktrainer.torch;

import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.global.torch.DeviceType;
import org.bytedeco.pytorch.global.torch.ScalarType;

/**
 * Runs operations of the calling thread in a lower precision where that is safe, as PyTorch's
 * autocast does: matrix products and convolutions take their float32 operands as bfloat16 or
 * float16, while parameters, and operations that need the range, stay float32. Restores the earlier
 * state when closed; regions nest.
 *
 * <p>A parameter is cast once per outermost region. Closing that region forgets the casts, so a
 * region must not span an optimizer step.
 */
public final class Autocast implements AutoCloseable {
  private final Setting before;

  /**
   * What a region has set on a thread.
   *
   * @param cpu type used on the CPU, or {@code FLOAT32} for none
   * @param cuda type used on CUDA devices, or {@code FLOAT32} for none
   */
  public record Setting(DType cpu, DType cuda) {
    public Setting {
      requireHalf(cpu);
      requireHalf(cuda);
    }

    private static void requireHalf(DType dtype) {
      if (dtype != DType.FLOAT32 && dtype != DType.BFLOAT16 && dtype != DType.FLOAT16) {
        throw new IllegalArgumentException(
            "Cannot autocast to "
                + dtype
                + ": expected bfloat16 or float16, or float32 for no autocast.");
      }
    }
  }

  private Autocast(Setting setting) {
    this.before = current();
    torch.increment_nesting();
    apply(setting);
  }

  /** Casts to {@code dtype} on devices of {@code type} until the result is closed. */
  public static Autocast to(DType dtype, Device.Type type) {
    Setting now = current();
    return new Autocast(
        type == Device.Type.CPU ? new Setting(dtype, now.cuda()) : new Setting(now.cpu(), dtype));
  }

  /** Casts nothing until the result is closed. */
  public static Autocast off() {
    return new Autocast(new Setting(DType.FLOAT32, DType.FLOAT32));
  }

  /** Continues with a {@link #current()} taken earlier, on this or another thread. */
  public static Autocast restored(Setting setting) {
    return new Autocast(setting);
  }

  /** What holds on the calling thread. */
  public static Setting current() {
    NativeLibraries.load();
    return new Setting(current(DeviceType.CPU), current(DeviceType.CUDA));
  }

  private static DType current(DeviceType type) {
    return torch.is_autocast_enabled(type)
        ? DType.of(torch.get_autocast_dtype(type))
        : DType.FLOAT32;
  }

  private static void apply(Setting setting) {
    apply(DeviceType.CPU, setting.cpu());
    apply(DeviceType.CUDA, setting.cuda());
  }

  private static void apply(DeviceType type, DType dtype) {
    boolean enabled = dtype != DType.FLOAT32;
    if (enabled) {
      ScalarType scalarType = dtype.scalarType();
      torch.set_autocast_dtype(type, scalarType);
    }
    torch.set_autocast_enabled(type, enabled);
  }

  @Override
  public void close() {
    apply(before);
    if (torch.decrement_nesting() == 0) {
      torch.clear_cache();
    }
  }
}
