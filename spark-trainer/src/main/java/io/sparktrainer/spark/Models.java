package io.sparktrainer.spark;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Cnn;
import io.sparktrainer.nn.Gpt;
import io.sparktrainer.nn.GptConfig;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.nn.Tabular;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.torch.Rng;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import org.jspecify.annotations.Nullable;

/** Makes models from their specification. */
final class Models {
  private static final int IMAGE_AXES = 3;
  private static final long CNN_HIDDEN = 64;

  private Models() {}

  /**
   * Checks what can be told without libtorch, so that the driver can say it.
   *
   * @throws IllegalArgumentException if the model cannot be made for this shape
   */
  static void check(ModelSpec spec, ModelShape shape) {
    if (spec instanceof ModelSpec.OfClass ofClass) {
      Constructor<? extends Block> unused = constructor(ofClass.name());
    } else if (spec instanceof ModelSpec.TorchScript script) {
      ScriptFile unused = ScriptFile.find(script.path());
    } else if (spec instanceof ModelSpec.Tabular tabular) {
      List<Tabular.Columns> unused = columns(tabular, shape);
    } else if (shape.inputs().size() != 1) {
      throw new IllegalArgumentException(
          "Cannot make the model: expected one input, got %s. Use {type: tabular}, {type: torchscript} or {type: class} for more."
              .formatted(shape.inputs().stream().map(ModelShape.Input::name).toList()));
    } else if (spec instanceof ModelSpec.Cnn && row(shape).size() != IMAGE_AXES) {
      throw new IllegalArgumentException(
          "Cannot make a cnn: expected rows of shape [channels, height, width], got %s. Set data.shape, such as [1, 28, 28], or data.images."
              .formatted(row(shape)));
    } else if (spec instanceof ModelSpec.Gpt gpt) {
      List<Long> row = row(shape);
      if (row.size() != 1 || row.get(0) > gpt.sizes().context()) {
        throw new IllegalArgumentException(
            "Cannot make a gpt: expected rows of at most %d tokens, got shape %s. Set model.context, or give data.features one column of token arrays."
                .formatted(gpt.sizes().context(), row));
      }
    }
  }

  private static List<Long> row(ModelShape shape) {
    return shape.inputs().get(0).rowShape();
  }

  /** The inputs as a tabular model takes them: whole numbers are categories. */
  private static List<Tabular.Columns> columns(ModelSpec.Tabular spec, ModelShape shape) {
    List<Tabular.Columns> columns = new ArrayList<>();
    for (ModelShape.Input input : shape.inputs()) {
      if (input.rowShape().size() != 1) {
        throw new IllegalArgumentException(
            "Cannot make a tabular model: expected rows of numbers in input '%s', got shape %s. Leave out its shape, or use {type: class}."
                .formatted(input.name(), input.rowShape()));
      }
      columns.add(
          input.type().isFloating()
              ? new Tabular.Numbers(Math.toIntExact(input.values()))
              : new Tabular.Categories(input.categories(), spec.embeddingWidth()));
    }
    return columns;
  }

  /**
   * Makes the model; the same seed gives the same parameters on every rank.
   *
   * @throws IllegalArgumentException if it cannot be made for this shape
   */
  static Block create(ModelSpec spec, ModelShape shape, long seed) {
    check(spec, shape);
    Rng.seed(seed);
    if (spec instanceof ModelSpec.Mlp mlp) {
      return new Mlp(shape.inputValues(), mlp.hidden(), shape.outputs());
    }
    if (spec instanceof ModelSpec.Cnn cnn) {
      List<Long> image = row(shape);
      return new Cnn(
          Math.toIntExact(image.get(0)),
          Math.toIntExact(image.get(1)),
          Math.toIntExact(image.get(2)),
          cnn.filters(),
          Math.toIntExact(shape.outputs()));
    }
    if (spec instanceof ModelSpec.Gpt gpt) {
      return new Gpt(gpt.sizes());
    }
    if (spec instanceof ModelSpec.Tabular tabular) {
      return new Tabular(
          columns(tabular, shape), tabular.hidden(), tabular.dropout(), shape.outputs());
    }
    if (spec instanceof ModelSpec.TorchScript script) {
      return ScriptFile.find(script.path()).load();
    }
    if (spec instanceof ModelSpec.OfClass ofClass) {
      return instantiate(constructor(ofClass.name()), shape);
    }
    throw new IllegalStateException("Cannot make a model of " + spec + ".");
  }

  /**
   * Parameters of the model, before it is made: a floating-point number, for what people mistype is
   * larger than any integer. Empty where only making the model tells.
   */
  static OptionalDouble parameters(ModelSpec spec, ModelShape shape) {
    if (spec instanceof ModelSpec.Mlp mlp) {
      return OptionalDouble.of(linear(shape.inputValues(), mlp.hidden(), shape.outputs()));
    }
    if (spec instanceof ModelSpec.Tabular tabular) {
      List<Tabular.Columns> columns = columns(tabular, shape);
      double count = linear(Tabular.values(columns), tabular.hidden(), shape.outputs());
      for (Tabular.Columns input : columns) {
        count += input.parameters();
      }
      return OptionalDouble.of(count);
    }
    if (spec instanceof ModelSpec.Cnn cnn) {
      List<Long> image = row(shape);
      double filters = cnn.filters();
      double convolutions = filters * (image.get(0) * 9 + 3) + 2 * filters * (filters * 9 + 3);
      double flat = 2 * filters * (image.get(1) / 4) * (image.get(2) / 4);
      return OptionalDouble.of(
          convolutions + (flat + 1) * CNN_HIDDEN + (CNN_HIDDEN + 1) * shape.outputs());
    }
    if (spec instanceof ModelSpec.Gpt gpt) {
      return OptionalDouble.of(parameters(gpt.sizes()));
    }
    return OptionalDouble.empty();
  }

  private static double linear(double in, List<Integer> hidden, long out) {
    double count = 0;
    double width = in;
    for (int next : hidden) {
      count += (width + 1) * next;
      width = next;
    }
    return count + (width + 1) * out;
  }

  private static double parameters(GptConfig sizes) {
    double width = sizes.width();
    double block = 12 * width * width + 13 * width;
    double embeddings = (sizes.vocab() + (double) sizes.context()) * width;
    double head = sizes.tied() ? 0 : sizes.vocab() * width;
    return embeddings + sizes.layers() * block + 2 * width + head;
  }

  private static Constructor<? extends Block> constructor(String name) {
    Class<?> type;
    try {
      type = Class.forName(name, true, loader());
    } catch (ClassNotFoundException | LinkageError e) {
      throw new IllegalArgumentException(
          "Cannot make model %s: expected a class on the class path, got %s. Add its jar with --jars, or spark.jars."
              .formatted(name, e),
          e);
    }
    if (!Block.class.isAssignableFrom(type)
        || Modifier.isAbstract(type.getModifiers())
        || !Modifier.isPublic(type.getModifiers())) {
      throw new IllegalArgumentException(
          "Cannot make model %s: expected a public class that extends %s."
              .formatted(name, Block.class.getName()));
    }
    Class<? extends Block> block = type.asSubclass(Block.class);
    Constructor<? extends Block> shaped = find(block, ModelShape.class);
    Constructor<? extends Block> found = shaped == null ? find(block) : shaped;
    if (found == null) {
      throw new IllegalArgumentException(
          "Cannot make model %s: expected a public constructor that takes a %s, or nothing."
              .formatted(name, ModelShape.class.getSimpleName()));
    }
    return found;
  }

  private static @Nullable Constructor<? extends Block> find(
      Class<? extends Block> type, Class<?>... parameters) {
    try {
      return type.getConstructor(parameters);
    } catch (NoSuchMethodException e) {
      return null;
    }
  }

  private static Block instantiate(Constructor<? extends Block> constructor, ModelShape shape) {
    try {
      return constructor.getParameterCount() == 0
          ? constructor.newInstance()
          : constructor.newInstance(shape);
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause() == null ? e : e.getCause();
      throw new IllegalArgumentException(
          "Cannot make model %s: its constructor threw %s"
              .formatted(constructor.getDeclaringClass().getName(), cause),
          cause);
    } catch (ReflectiveOperationException e) {
      throw new IllegalArgumentException(
          "Cannot make model " + constructor.getDeclaringClass().getName() + ": " + e, e);
    }
  }

  /** Spark puts jars of a session on the thread's loader. */
  private static ClassLoader loader() {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    return loader == null ? Models.class.getClassLoader() : loader;
  }
}
