package io.sparktrainer.spark.config;

import java.util.Collection;
import org.jspecify.annotations.Nullable;

/** Finds what somebody who mistyped a name may have meant. */
final class NearestName {
  private NearestName() {}

  /** The known name that is closest to {@code typed}, or null where none is close. */
  static @Nullable String of(String typed, Collection<String> known) {
    String nearest = null;
    int best = Math.max(2, typed.length() / 3) + 1;
    for (String name : known) {
      int distance =
          distance(
              typed.toLowerCase(java.util.Locale.ROOT), name.toLowerCase(java.util.Locale.ROOT));
      if (distance < best) {
        best = distance;
        nearest = name;
      }
    }
    return nearest;
  }

  /** Number of single-character edits between two names (Levenshtein). */
  private static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) {
      row[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int substitute = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(substitute, 1 + Math.min(row[j], row[j - 1]));
      }
    }
    return row[b.length()];
  }
}
