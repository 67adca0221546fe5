package io.sparktrainer.optim;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** The parameters that one call of a fused kernel updates. */
final class Batch {
  /**
   * What a kernel's call needs to be the same for all its parameters.
   *
   * @param dtype the type that the kernel computes in and keeps the state in
   * @param fresh whether this is the parameters' first update
   */
  record Key(DType dtype, Device device, boolean fresh) {}

  private final Key key;
  private final List<String> stateNames;
  private final List<Slot> slots = new ArrayList<>();
  private final List<Tensor> parameters = new ArrayList<>();
  private final List<Tensor> gradients = new ArrayList<>();

  Batch(Key key, List<String> stateNames) {
    this.key = key;
    this.stateNames = stateNames;
  }

  /**
   * @throws IllegalStateException if gradient and parameter differ in shape
   */
  void add(Slot slot, Tensor gradient) {
    Tensor parameter = slot.parameter();
    if (!gradient.is_same_size(parameter)) {
      throw new IllegalStateException(
          "Cannot update \"%s\": expected a gradient of the parameter's shape, got parameter %s and gradient %s."
              .formatted(slot.name(), Tensors.describe(parameter), Tensors.describe(gradient)));
    }
    Tensor working = Layouts.dense(parameter, key.dtype());
    slot.prepare(stateNames, working);
    slots.add(slot);
    parameters.add(working);
    gradients.add(Layouts.like(working, gradient));
  }

  boolean fresh() {
    return key.fresh();
  }

  List<Tensor> parameters() {
    return parameters;
  }

  List<Tensor> gradients() {
    return gradients;
  }

  List<Tensor> states(String stateName) {
    List<Tensor> states = new ArrayList<>(slots.size());
    for (Slot slot : slots) {
      states.add(slot.state(stateName));
    }
    return states;
  }

  /** Brings the update of copies back into the parameters that were copied. */
  void writeBack() {
    for (int i = 0; i < slots.size(); i++) {
      Tensor parameter = slots.get(i).parameter();
      if (!parameters.get(i).is_same(parameter)) {
        parameter.copy_(parameters.get(i));
      }
    }
  }
}
