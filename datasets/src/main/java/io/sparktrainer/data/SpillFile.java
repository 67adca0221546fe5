package io.sparktrainer.data;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkEnv;
import org.jspecify.annotations.Nullable;

/** Chunks of rows on local disk: written once, then mapped. The file has no name once mapped. */
final class SpillFile implements AutoCloseable {
  private static final long MAX_MAP_BYTES = 1L << 29;

  private final Path path;
  private final FileChannel channel;
  private final int chunkBytes;
  private final List<MappedByteBuffer> maps = new ArrayList<>();
  private int chunks;

  private SpillFile(Path path, FileChannel channel, int chunkBytes) {
    this.path = path;
    this.channel = channel;
    this.chunkBytes = chunkBytes;
  }

  /**
   * Makes an empty file.
   *
   * @param directory its folder, or null for Spark's local one
   */
  static SpillFile create(@Nullable String directory, int chunkBytes) {
    Path folder = Path.of(directory == null ? localDirectory() : directory);
    try {
      Files.createDirectories(folder);
      Path path = Files.createTempFile(folder, "spark-trainer-rows-", ".spill");
      FileChannel channel =
          FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE);
      return new SpillFile(path, channel, chunkBytes);
    } catch (IOException e) {
      throw failure(folder, e);
    }
  }

  /** Where Spark's own tasks spill: set by YARN, by a standalone worker, by the configuration. */
  private static String localDirectory() {
    for (String variable : List.of("LOCAL_DIRS", "SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS")) {
      String value = System.getenv(variable);
      if (value != null && !value.isBlank()) {
        return value.split("[,:]", 2)[0];
      }
    }
    String temporary = System.getProperty("java.io.tmpdir");
    SparkEnv env = SparkEnv.get();
    String local = env == null ? temporary : env.conf().get("spark.local.dir", temporary);
    return local.split(",", 2)[0];
  }

  /** Appends a chunk; the buffer is written from 0 to its capacity. */
  void append(ByteBuffer chunk) {
    ByteBuffer whole = chunk.duplicate().clear();
    try {
      long at = (long) chunks * chunkBytes;
      while (whole.hasRemaining()) {
        at += channel.write(whole, at);
      }
    } catch (IOException e) {
      throw failure(path, e);
    }
    chunks++;
  }

  /** Maps the file. The chunks are valid until {@link #close}. */
  List<ByteBuffer> map() {
    List<ByteBuffer> mapped = new ArrayList<>();
    int perMap = (int) Math.max(1, MAX_MAP_BYTES / chunkBytes);
    try {
      for (int first = 0; first < chunks; first += perMap) {
        int count = Math.min(perMap, chunks - first);
        MappedByteBuffer map =
            channel.map(
                FileChannel.MapMode.READ_ONLY,
                (long) first * chunkBytes,
                (long) count * chunkBytes);
        maps.add(map);
        for (int i = 0; i < count; i++) {
          mapped.add(map.slice(i * chunkBytes, chunkBytes).order(ByteOrder.nativeOrder()));
        }
      }
      channel.close();
      Files.delete(path);
    } catch (IOException e) {
      throw failure(path, e);
    }
    return mapped;
  }

  private static UncheckedIOException failure(Path where, IOException e) {
    return new UncheckedIOException(
        "Cannot keep rows beyond the memory budget in %s: %s. Give more memory, or another folder to spill to."
            .formatted(where, e.getMessage()),
        e);
  }

  @Override
  public void close() {
    maps.forEach(DirectMemory::free);
    maps.clear();
    try {
      channel.close();
      Files.deleteIfExists(path);
    } catch (IOException e) {
      throw new UncheckedIOException("Cannot delete " + path, e);
    }
  }
}
