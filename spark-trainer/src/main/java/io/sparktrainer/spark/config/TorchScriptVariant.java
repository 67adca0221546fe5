package io.sparktrainer.spark.config;

import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** {@code model: {type: torchscript, path: model.pt}}. */
final class TorchScriptVariant implements Variant<ModelSpec> {
  @Override
  public String name() {
    return "torchscript";
  }

  @Override
  public @Nullable ModelSpec read(Section section) {
    String path = section.text("path");
    Integer outputs = ModelSection.outputs(section);
    if (path == null) {
      section.missing("path", "a file that torch.jit.save wrote, such as hdfs:///models/net.pt");
      return null;
    }
    return section.build(() -> new ModelSpec.TorchScript(path, outputs));
  }

  @Override
  public @Nullable Map<String, @Nullable Object> write(ModelSpec value) {
    if (!(value instanceof ModelSpec.TorchScript script)) {
      return null;
    }
    Map<String, @Nullable Object> keys = new LinkedHashMap<>();
    keys.put("path", script.path());
    keys.put("outputs", script.outputs());
    return keys;
  }
}
