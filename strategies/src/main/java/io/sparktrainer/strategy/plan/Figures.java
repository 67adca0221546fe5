package io.sparktrainer.strategy.plan;

import java.util.Locale;

/** Numbers for people. */
final class Figures {
  private static final String[] BINARY = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  private static final String[] DECIMAL = {"", " thousand", " million", " billion", " trillion"};

  private Figures() {}

  /** {@code 1.50 GiB}: three significant digits or more, binary units. */
  static String bytes(long bytes) {
    return scaled(bytes, 1024, " ", BINARY);
  }

  /** {@code 68.98 billion}. */
  static String count(long count) {
    return scaled(count, 1000, "", DECIMAL);
  }

  private static String scaled(long value, int base, String gap, String[] names) {
    double scaled = value;
    int unit = 0;
    while (Math.abs(scaled) >= base && unit < names.length - 1) {
      scaled /= base;
      unit++;
    }
    String number = unit == 0 ? Long.toString(value) : String.format(Locale.ROOT, "%.2f", scaled);
    return number + gap + names[unit];
  }
}
