package io.sparktrainer.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.util.SerializableConfiguration;

/** The folder of one run, on any file system that Hadoop reaches, for the driver and the ranks. */
final class RunFolder implements Serializable {
  static final String CONFIG = "config.yaml";
  static final String METRICS = "metrics.jsonl";
  static final String MODEL = "model.safetensors";
  static final String RESULT = "result.json";
  private static final long serialVersionUID = 1L;
  private static final String UNFINISHED = ".part";

  private final String folder;
  private final SerializableConfiguration hadoop;

  private RunFolder(String folder, SerializableConfiguration hadoop) {
    this.folder = folder;
    this.hadoop = hadoop;
  }

  /**
   * Makes the folder, if it is not there, and writes the configuration into it.
   *
   * @throws IllegalArgumentException if the folder cannot be written
   */
  static RunFolder create(String output, Configuration hadoop, String configYaml) {
    try {
      Path path = new Path(output);
      FileSystem files = path.getFileSystem(hadoop);
      // Executors have another working directory, so a relative path means nothing to them.
      Path qualified = files.makeQualified(path);
      RunFolder folder = new RunFolder(qualified.toString(), new SerializableConfiguration(hadoop));
      folder.files().mkdirs(qualified);
      folder.write(CONFIG, configYaml);
      boolean unused = folder.files().delete(new Path(qualified, RESULT), false);
      return folder;
    } catch (IOException | RuntimeException e) {
      throw new IllegalArgumentException(
          "Cannot write the run folder %s: %s. Set output to a folder that can be written."
              .formatted(output, e),
          e);
    }
  }

  /** Where a file of the folder is, without the scheme of local files. */
  String path(String name) {
    return new Path(folder, name).toString().replaceFirst("^file:(//)?", "");
  }

  /** The folder, without the scheme of local files. */
  String path() {
    return folder.replaceFirst("^file:(//)?", "");
  }

  /**
   * @throws IllegalStateException if this host does not see what the driver wrote
   */
  void requireVisible(String host) throws IOException {
    if (!files().exists(new Path(folder, CONFIG))) {
      throw new IllegalStateException(
          "Cannot write the model to %s: the driver made that folder, but host %s of rank 0 does not see it. Set output to a file system that all hosts share."
              .formatted(folder, host));
    }
  }

  void write(String name, String text) throws IOException {
    try (OutputStream out = open(name)) {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  /** Opens a file for writing, in place of one that is there. */
  OutputStream open(String name) throws IOException {
    return files().create(new Path(folder, name), true);
  }

  /** Writes a file that appears under its name only when it is whole. */
  void writeWhole(String name, Content content) throws IOException {
    Path unfinished = new Path(folder, name + UNFINISHED);
    Path finished = new Path(folder, name);
    try (OutputStream out = files().create(unfinished, true)) {
      content.writeTo(out);
    }
    boolean unused = files().delete(finished, false);
    if (!files().rename(unfinished, finished)) {
      throw new FileNotFoundException(
          "Cannot rename %s to %s: the file system refused.".formatted(unfinished, finished));
    }
  }

  /** What goes into a file. */
  @FunctionalInterface
  interface Content {
    void writeTo(OutputStream out) throws IOException;
  }

  private FileSystem files() throws IOException {
    FileSystem files = new Path(folder).getFileSystem(hadoop.value());
    // Hadoop's local file system would litter the folder with checksum files.
    return files instanceof LocalFileSystem local ? local.getRawFileSystem() : files;
  }

  @Override
  public String toString() {
    return folder;
  }
}
