package io.sparktrainer.parity;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.sparktrainer.checkpoint.Safetensors;
import io.sparktrainer.checkpoint.SafetensorsFile;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/** One training run by PyTorch, as its folder describes it; see the README beside the cases. */
final class GoldenCase {
  private static final Set<String> KEYS =
      Set.of(
          "case",
          "model",
          "heads",
          "optimizer",
          "strategy",
          "steps",
          "batch_per_rank",
          "seed",
          "accumulate",
          "clip_grad_norm",
          "batches_by_rank",
          "world",
          "torch",
          "losses_by_rank",
          "grad_norms");

  private final Path folder;
  private final JsonNode json;

  private GoldenCase(Path folder, JsonNode json) {
    this.folder = folder;
    this.json = json;
  }

  static GoldenCase read(Path folder) {
    try {
      JsonNode json = new ObjectMapper().readTree(folder.resolve("case.json").toFile());
      return new GoldenCase(folder, json);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  Path folder() {
    return folder;
  }

  String name() {
    return json.path("case").asText();
  }

  String model() {
    return json.path("model").asText();
  }

  int heads() {
    return json.path("heads").asInt(4);
  }

  JsonNode optimizer() {
    return json.path("optimizer");
  }

  JsonNode strategy() {
    return json.path("strategy");
  }

  int world() {
    return json.path("world").asInt();
  }

  /** Steps for which {@code rank} has data. */
  int steps(int rank) {
    return isUneven()
        ? json.path("batches_by_rank").path(rank).asInt() / accumulate()
        : json.path("steps").asInt();
  }

  int accumulate() {
    return json.path("accumulate").asInt(1);
  }

  @Nullable Double clipGradNorm() {
    JsonNode clip = json.path("clip_grad_norm");
    return clip.isNumber() ? clip.doubleValue() : null;
  }

  boolean isUneven() {
    return json.has("batches_by_rank");
  }

  boolean isHalfPrecision() {
    return strategy().has("mixed_precision");
  }

  List<Double> losses(int rank) {
    return numbers(json.path("losses_by_rank").path(rank));
  }

  /** Empty where nothing was clipped. */
  List<Double> gradNorms() {
    return numbers(json.path("grad_norms"));
  }

  /** A key of the case that this runner does not know, or null. */
  @Nullable String unknownKey() {
    for (Iterator<String> keys = json.fieldNames(); keys.hasNext(); ) {
      String key = keys.next();
      if (!KEYS.contains(key)) {
        return key;
      }
    }
    return null;
  }

  private static List<Double> numbers(JsonNode list) {
    List<Double> values = new ArrayList<>();
    list.forEach(value -> values.add(value.doubleValue()));
    return values;
  }

  /** State dict before the first step, in the current scope. */
  Map<String, Tensor> initialState() throws IOException {
    return Safetensors.read(folder.resolve("init.safetensors"));
  }

  /** State dict after the last step, in the current scope. */
  Map<String, Tensor> finalState() throws IOException {
    return Safetensors.read(folder.resolve("final.safetensors"));
  }

  /** {@code rank{r}.batch{i}.x} and {@code .y}. */
  SafetensorsFile data() throws IOException {
    return Safetensors.open(folder.resolve("data.safetensors"));
  }

  @Override
  public String toString() {
    return name();
  }
}
