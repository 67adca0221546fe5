package io.sparktrainer.spark;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.TorchScript;
import java.io.IOException;
import java.nio.file.Files;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.deploy.SparkHadoopUtil;

/** A TorchScript file, on any file system that Hadoop reaches. */
final class ScriptFile {
  private final Path path;
  private final FileSystem files;

  private ScriptFile(Path path, FileSystem files) {
    this.path = path;
    this.files = files;
  }

  /**
   * Looks for the file.
   *
   * @throws IllegalArgumentException if there is none
   */
  static ScriptFile find(String given) {
    try {
      FileSystem files = new Path(given).getFileSystem(SparkHadoopUtil.get().conf());
      Path path = files.makeQualified(new Path(given));
      if (!files.exists(path) || files.getFileStatus(path).isDirectory()) {
        throw new IllegalArgumentException(
            "Cannot make the model: expected a TorchScript file, got no file %s. Name one that all executors can read, in model.path."
                .formatted(path));
      }
      return new ScriptFile(path, files);
    } catch (IOException e) {
      throw new IllegalArgumentException(
          "Cannot make the model of TorchScript file %s: %s.".formatted(given, e), e);
    }
  }

  /** With its file system, since executors have another working directory. */
  String qualifiedPath() {
    return path.toString();
  }

  /**
   * Reads the module.
   *
   * @throws IllegalArgumentException if it is no TorchScript module, or cannot be read
   */
  Block load() {
    if (files.getScheme().equals("file")) {
      return TorchScript.load(java.nio.file.Path.of(path.toUri().getPath()));
    }
    try {
      java.nio.file.Path copy = Files.createTempFile("model", ".pt");
      try {
        files.copyToLocalFile(false, path, new Path(copy.toUri()), true);
        return TorchScript.load(copy);
      } finally {
        Files.deleteIfExists(copy);
      }
    } catch (IOException e) {
      throw new IllegalArgumentException(
          "Cannot read TorchScript file %s: %s.".formatted(path, e), e);
    }
  }
}
