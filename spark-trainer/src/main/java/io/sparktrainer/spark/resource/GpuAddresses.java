package io.sparktrainer.spark.resource;

import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * Finds the GPUs that Spark means by the addresses of a task's resource {@code gpu}.
 *
 * <p>An address is what the discovery script printed: a number as {@code nvidia-smi} counts, which
 * is by place on the PCI bus, or a UUID. CUDA counts otherwise: from 0 over what {@code
 * CUDA_VISIBLE_DEVICES} leaves, in that order, else from the fastest device on.
 */
final class GpuAddresses {
  private final List<Gpu> gpus;
  private final @Nullable String visible;

  /**
   * @param gpus those that the process sees, by CUDA's number
   * @param visible the process's {@code CUDA_VISIBLE_DEVICES}, or null where it is not set
   */
  GpuAddresses(List<Gpu> gpus, @Nullable String visible) {
    this.gpus = gpus;
    this.visible = visible == null || visible.isBlank() ? null : visible;
  }

  /**
   * The GPU at an address.
   *
   * @throws IllegalArgumentException if the process does not see one there
   */
  Gpu find(String address) {
    String wanted = address.strip();
    Gpu found = wanted.matches("\\d{1,9}") ? byNumber(wanted) : byName(wanted);
    if (found == null) {
      throw new IllegalArgumentException(
          "Spark gave the task GPU %s, but its process sees only %s with CUDA_VISIBLE_DEVICES %s. Unset CUDA_VISIBLE_DEVICES for executors, or let the discovery script print what it holds, as bin/discover-gpus does"
              .formatted(wanted, gpus, visible == null ? "not set" : "= " + visible));
    }
    return found;
  }

  private @Nullable Gpu byNumber(String number) {
    if (visible == null) {
      List<Gpu> byPlace =
          gpus.stream().sorted(Comparator.comparing(gpu -> normal(gpu.pciId()))).toList();
      return at(byPlace, Integer.parseInt(number));
    }
    String[] entries = visible.split(",", -1);
    for (int i = 0; i < entries.length; i++) {
      String entry = entries[i].strip();
      if (entry.matches("\\d{1,9}") && Integer.parseInt(entry) == Integer.parseInt(number)) {
        return at(gpus, i);
      }
    }
    return null;
  }

  private @Nullable Gpu byName(String name) {
    String wanted = normal(name);
    // CUDA takes the first characters of a UUID, too, as long as they tell devices apart.
    List<Gpu> found =
        gpus.stream()
            .filter(
                gpu -> normal(gpu.uuid()).startsWith(wanted) || normal(gpu.pciId()).equals(wanted))
            .toList();
    return found.size() == 1 ? found.get(0) : null;
  }

  private static @Nullable Gpu at(List<Gpu> gpus, int place) {
    return place < gpus.size() ? gpus.get(place) : null;
  }

  /**
   * Small letters, and a PCI place without leading zeros of its domain, of which some have more.
   */
  private static String normal(String name) {
    return name.toLowerCase(Locale.ROOT).replaceFirst("^0+(?=[0-9a-f]{4}:)", "");
  }
}
