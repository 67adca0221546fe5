package io.sparktrainer.optim;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * What the fused optimizers share: one kernel call per element type and device, over all parameters
 * that have a gradient; state by name. A parameter that the kernel cannot walk (with gaps in
 * memory, such as a slice of another tensor) is copied for the kernel and back.
 */
abstract class FusedOptimizer implements Optimizer {
  private final String name;
  private final double baseLearningRate;
  private final List<String> stateNames;
  private final Map<String, Slot> slots = new LinkedHashMap<>();
  private boolean closed;

  FusedOptimizer(
      String name,
      double baseLearningRate,
      List<String> stateNames,
      Map<String, Tensor> parameters) {
    this.name = name;
    this.baseLearningRate = baseLearningRate;
    this.stateNames = stateNames;
    if (parameters.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot make %s: expected at least one parameter, got none.".formatted(name));
    }
    parameters.forEach(this::add);
  }

  private void add(String parameterName, Tensor parameter) {
    if (!DType.of(parameter).isFloatingPoint()) {
      throw new IllegalArgumentException(
          "Cannot make %s: expected floating-point parameters, got \"%s\" %s."
              .formatted(name, parameterName, Tensors.describe(parameter)));
    }
    slots.put(parameterName, new Slot(parameterName, parameter));
  }

  /** The type that the kernel computes in, and keeps the state in, for {@code parameter}. */
  DType workingType(Tensor parameter) {
    return DType.of(parameter);
  }

  /** Runs the kernel; gradients are not recorded. */
  abstract void update(
      Batch batch, double learningRate, @Nullable Tensor gradScale, @Nullable Tensor foundInf);

  @Override
  public final void step(double learningRate) {
    run(learningRate, null, null);
  }

  @Override
  public final void step(double learningRate, Tensor gradScale, Tensor foundInf) {
    run(learningRate, gradScale, foundInf);
  }

  private void run(double learningRate, @Nullable Tensor gradScale, @Nullable Tensor foundInf) {
    requireOpen();
    if (!Double.isFinite(learningRate)) {
      throw new IllegalArgumentException(
          "Cannot take a step of %s: expected a finite learning rate, got %s."
              .formatted(name, learningRate));
    }
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      for (Batch batch : batches()) {
        update(batch, learningRate, gradScale, foundInf);
        batch.writeBack();
      }
    }
  }

  private Iterable<Batch> batches() {
    Map<Batch.Key, Batch> batches = new LinkedHashMap<>();
    for (Slot slot : slots.values()) {
      Tensor parameter = slot.parameter();
      Tensor gradient = parameter.grad();
      if (gradient.defined()) {
        var key = new Batch.Key(workingType(parameter), Device.of(parameter), slot.isFresh());
        batches.computeIfAbsent(key, unused -> new Batch(key, stateNames)).add(slot, gradient);
      }
    }
    return batches.values();
  }

  @Override
  public final double baseLearningRate() {
    return baseLearningRate;
  }

  @Override
  public final Map<String, Tensor> state() {
    requireOpen();
    Map<String, Tensor> named = new LinkedHashMap<>();
    for (Slot slot : slots.values()) {
      slot.state().forEach((stateName, tensor) -> named.put(slot.name() + "/" + stateName, tensor));
    }
    return named;
  }

  @Override
  public final void loadState(Map<String, Tensor> state) {
    requireOpen();
    Map<String, Map<String, Tensor>> byParameter = new LinkedHashMap<>();
    state.forEach(
        (key, value) -> {
          int slash = key.lastIndexOf('/');
          String parameterName = key.substring(0, Math.max(0, slash));
          String stateName = key.substring(slash + 1);
          requireFits(key, parameterName, stateName, value);
          byParameter
              .computeIfAbsent(parameterName, unused -> new LinkedHashMap<>())
              .put(stateName, value);
        });
    byParameter.forEach(this::requireComplete);
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      for (Slot slot : slots.values()) {
        Tensor working = Layouts.dense(slot.parameter(), workingType(slot.parameter()));
        slot.load(byParameter.getOrDefault(slot.name(), Map.of()), working);
      }
    }
  }

  private void requireFits(String key, String parameterName, String stateName, Tensor value) {
    Slot slot = slots.get(parameterName);
    if (slot == null) {
      throw new IllegalArgumentException(
          "Cannot load the state of %s: \"%s\" is for a parameter that the model does not have."
              .formatted(name, key));
    }
    if (!stateNames.contains(stateName)) {
      throw new IllegalArgumentException(
          "Cannot load the state of %s: expected one of %s for \"%s\", got \"%s\"."
              .formatted(name, stateNames, parameterName, stateName));
    }
    long[] expected = stateName.equals(Slot.STEP) ? new long[0] : Tensors.shape(slot.parameter());
    if (!Arrays.equals(expected, Tensors.shape(value)) || !DType.of(value).isFloatingPoint()) {
      throw new IllegalArgumentException(
          "Cannot load the state of %s: expected floating-point values of shape %s for \"%s\", got %s."
              .formatted(name, Arrays.toString(expected), key, Tensors.describe(value)));
    }
  }

  private void requireComplete(String parameterName, Map<String, Tensor> states) {
    for (String stateName : stateNames) {
      if (!states.containsKey(stateName)) {
        throw new IllegalArgumentException(
            "Cannot load the state of %s: expected %s for \"%s\", got only %s."
                .formatted(name, stateNames, parameterName, states.keySet()));
      }
    }
  }

  private void requireOpen() {
    if (closed) {
      throw new IllegalStateException("Cannot use %s: it is closed.".formatted(name));
    }
  }

  @Override
  public final void close() {
    if (!closed) {
      closed = true;
      slots.values().forEach(Slot::freeState);
    }
  }

  @Override
  public final String toString() {
    return name;
  }
}
