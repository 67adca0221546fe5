package io.sparktrainer.spark.metrics;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** Writes each record as one line of JSON; an epoch's end makes what is written visible. */
public final class JsonLines implements MetricSink, AutoCloseable {
  private final OutputStream out;

  /**
   * @param out closed by {@link #close()}
   */
  public JsonLines(OutputStream out) {
    this.out = out;
  }

  @Override
  public void accept(MetricRecord record) {
    try {
      out.write((record.toJson() + "\n").getBytes(StandardCharsets.UTF_8));
      if (record instanceof MetricRecord.Epoch) {
        out.flush();
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() throws IOException {
    out.close();
  }
}
