package io.sparktrainer.optim;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/** One parameter with its state, which exists from the parameter's first update on. */
final class Slot {
  /** Number of updates, a float32 scalar; all other state has the parameter's shape and type. */
  static final String STEP = "step";

  private final String name;
  private final Tensor parameter;
  private final Map<String, Tensor> state = new LinkedHashMap<>();

  Slot(String name, Tensor parameter) {
    this.name = name;
    this.parameter = parameter;
  }

  String name() {
    return name;
  }

  Tensor parameter() {
    return parameter;
  }

  boolean isFresh() {
    return state.isEmpty();
  }

  Map<String, Tensor> state() {
    return state;
  }

  /** The state {@code stateName}, which the slot must have. */
  Tensor state(String stateName) {
    Tensor tensor = state.get(stateName);
    if (tensor == null) {
      throw new IllegalStateException("No state \"%s\" of \"%s\".".formatted(stateName, name));
    }
    return tensor;
  }

  /**
   * Brings the state in line with {@code working}, the tensor that the kernel is about to walk in
   * memory order: zeros where there is none yet, the same strides where the parameter has changed
   * its own since.
   */
  void prepare(List<String> stateNames, Tensor working) {
    for (String stateName : stateNames) {
      Tensor existing = state.get(stateName);
      if (existing == null) {
        state.put(stateName, NativeScope.keep(zeros(stateName, working)));
      } else if (!stateName.equals(STEP) && !Layouts.match(existing, working)) {
        requireShape(existing, working);
        replace(stateName, torch.empty_like(working).copy_(existing));
      }
    }
  }

  private void requireShape(Tensor existing, Tensor working) {
    if (!existing.is_same_size(working)) {
      throw new IllegalStateException(
          "Cannot update \"%s\": its state is for shape %s, got a parameter of shape %s. Make a new optimizer after changing a parameter's shape."
              .formatted(
                  name,
                  Arrays.toString(Tensors.shape(existing)),
                  Arrays.toString(Tensors.shape(working))));
    }
  }

  private static Tensor zeros(String stateName, Tensor like) {
    return stateName.equals(STEP)
        ? Tensors.zeros(DType.FLOAT32, Device.of(like))
        : torch.zeros_like(like);
  }

  /** Replaces the whole state by copies of {@code values}, which fit, laid out as working is. */
  void load(Map<String, Tensor> values, Tensor working) {
    freeState();
    values.forEach(
        (stateName, value) ->
            state.put(
                stateName,
                NativeScope.keep(owned(zeros(stateName, working).copy_(value.detach())))));
  }

  private void replace(String stateName, Tensor value) {
    Tensor old = state.put(stateName, NativeScope.keep(owned(value)));
    close(old);
  }

  /** A handle of our own: in-place operations return an alias of their argument's. */
  private static Tensor owned(Tensor tensor) {
    return new Tensor(tensor);
  }

  void freeState() {
    state.values().forEach(Slot::close);
    state.clear();
  }

  private static void close(@Nullable Tensor tensor) {
    if (tensor != null) {
      tensor.close();
    }
  }
}
