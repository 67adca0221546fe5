package io.sparktrainer.spark.barrier;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;
import org.jspecify.annotations.Nullable;

/**
 * What has to be equal on all ranks, one fact a line: options, and name, type and shape of each
 * parameter.
 *
 * @param lines facts without line breaks, in the same order on every rank
 */
public record Fingerprint(List<String> lines) {
  public Fingerprint {
    lines = List.copyOf(lines);
  }

  /** As a short text; names of parameters repeat each other, so packing saves most of it. */
  String pack() {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (GZIPOutputStream out = new GZIPOutputStream(bytes)) {
      out.write(String.join("\n", lines).getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return Base64.getEncoder().encodeToString(bytes.toByteArray());
  }

  static Fingerprint unpack(String packed) {
    byte[] bytes = Base64.getDecoder().decode(packed);
    try (GZIPInputStream in = new GZIPInputStream(new ByteArrayInputStream(bytes))) {
      return new Fingerprint(
          List.of(new String(in.readAllBytes(), StandardCharsets.UTF_8).split("\n", -1)));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The first line that differs, as "X here and Y there", or null where all are equal. */
  @Nullable String firstDifference(Fingerprint other) {
    for (int i = 0; i < Math.max(lines.size(), other.lines.size()); i++) {
      String mine = i < lines.size() ? lines.get(i) : "nothing";
      String theirs = i < other.lines.size() ? other.lines.get(i) : "nothing";
      if (!mine.equals(theirs)) {
        return "\"%s\" against \"%s\"".formatted(mine.strip(), theirs.strip());
      }
    }
    return null;
  }
}
