package io.sparktrainer.spark;

import io.sparktrainer.checkpoint.Safetensors;
import io.sparktrainer.nn.Block;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.io.IOException;
import java.io.InputStream;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.util.SerializableConfiguration;
import org.bytedeco.pytorch.Tensor;

/**
 * Weights of an earlier training, to start from. Rank 0 alone reads them: ddp broadcasts its values
 * before the first step, fsdp cuts them into shards, and the replicas of dp share them.
 */
final class InitialWeights implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int SHOWN_NAMES = 5;

  private final String path;
  private final SerializableConfiguration hadoop;

  private InitialWeights(String path, SerializableConfiguration hadoop) {
    this.path = path;
    this.hadoop = hadoop;
  }

  /**
   * Looks for a safetensors file, or for the one in a run folder.
   *
   * @throws IllegalArgumentException if there is none
   */
  static InitialWeights find(String given, Configuration hadoop) {
    try {
      FileSystem files = new Path(given).getFileSystem(hadoop);
      // Executors have another working directory, so a relative path means nothing to them.
      Path path = files.makeQualified(new Path(given));
      if (files.exists(path) && files.getFileStatus(path).isDirectory()) {
        path = new Path(path, RunFolder.MODEL);
      }
      if (!files.exists(path)) {
        throw new IllegalArgumentException(
            "Cannot start from model.init %s: expected a safetensors file, or a run folder with %s, got no file %s. Name one, or take model.init out."
                .formatted(given, RunFolder.MODEL, path));
      }
      return new InitialWeights(path.toString(), new SerializableConfiguration(hadoop));
    } catch (IOException e) {
      throw new IllegalArgumentException(
          "Cannot start from model.init %s: %s.".formatted(given, e), e);
    }
  }

  /** The file. */
  String path() {
    return path;
  }

  /**
   * Overwrites all parameters and buffers of {@code model}.
   *
   * @throws IllegalArgumentException naming every tensor that one side lacks, or that has another
   *     shape
   * @throws IOException if the file cannot be read
   */
  void load(Block model) throws IOException {
    Path file = new Path(path);
    try (var scope = NativeScope.open();
        var off = Gradients.off();
        InputStream in = file.getFileSystem(hadoop.value()).open(file)) {
      Map<String, Tensor> found = Safetensors.read(in, path);
      Map<String, Tensor> wanted = model.state();
      requireSame(wanted, found);
      for (Map.Entry<String, Tensor> entry : wanted.entrySet()) {
        Tensor value = found.get(entry.getKey());
        if (value != null) {
          Tensors.overwrite(entry.getValue(), value);
        }
      }
    }
  }

  private void requireSame(Map<String, Tensor> wanted, Map<String, Tensor> found) {
    List<String> missing = new ArrayList<>();
    List<String> otherShapes = new ArrayList<>();
    wanted.forEach(
        (name, tensor) -> {
          Tensor value = found.get(name);
          String shape = Arrays.toString(Tensors.shape(tensor));
          if (value == null) {
            missing.add(name + " " + shape);
          } else if (!Arrays.equals(Tensors.shape(tensor), Tensors.shape(value))) {
            otherShapes.add(
                "%s %s instead of %s"
                    .formatted(name, Arrays.toString(Tensors.shape(value)), shape));
          }
        });
    List<String> unknown =
        found.keySet().stream().filter(name -> !wanted.containsKey(name)).toList();
    List<String> differences = new ArrayList<>();
    add(differences, "without ", missing);
    add(differences, "with ", otherShapes);
    add(differences, "with unknown ", unknown);
    if (!differences.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot start from %s: expected the tensors of this model, got a file %s. Give the model the sizes that it was trained with, or take model.init out."
              .formatted(path, String.join("; ", differences)));
    }
  }

  private static void add(List<String> parts, String what, List<String> names) {
    if (!names.isEmpty()) {
      int more = names.size() - SHOWN_NAMES;
      parts.add(
          what
              + String.join(", ", names.subList(0, Math.min(SHOWN_NAMES, names.size())))
              + (more > 0 ? " and %d more".formatted(more) : ""));
    }
  }
}
