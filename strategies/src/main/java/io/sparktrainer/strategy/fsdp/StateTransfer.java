package io.sparktrainer.strategy.fsdp;

import io.sparktrainer.comm.ByteExchange;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.strategy.CoalescedBroadcast;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/** Moves the whole model's state to rank 0 and from there, one unit at a time. */
final class StateTransfer {
  private final Block model;
  private final List<FlatParameter> flats;
  private final Map<String, DType> bufferTypes;
  private final Communicator world;

  /**
   * Works on the shards in {@code flats}.
   *
   * @param bufferTypes the types in which buffers are saved, by name
   */
  StateTransfer(
      Block model, List<FlatParameter> flats, Map<String, DType> bufferTypes, Communicator world) {
    this.model = model;
    this.flats = flats;
    this.bufferTypes = bufferTypes;
    this.world = world;
  }

  /** See {@link io.sparktrainer.strategy.ParallelStrategy#fullState}. */
  Map<String, Tensor> gather() {
    Map<String, Tensor> values = new HashMap<>();
    for (FlatParameter flat : flats) {
      try (var scope = NativeScope.open();
          var off = Gradients.off()) {
        Tensor gathered = flat.gatherValues();
        for (int i = 0; world.rank() == 0 && i < flat.names().size(); i++) {
          Tensor value = flat.valueOf(gathered, i);
          Tensor copy = value.is_cpu() ? value.clone() : value.cpu();
          values.put(flat.names().get(i), scope.pass(copy));
        }
      }
    }
    Map<String, Tensor> state = new LinkedHashMap<>();
    if (world.rank() == 0) {
      model
          .state()
          .forEach(
              (name, tensor) -> {
                Tensor parameter = values.get(name);
                state.put(name, parameter == null ? bufferValue(name, tensor) : parameter);
              });
    }
    world.requireIntact();
    return state;
  }

  private Tensor bufferValue(String name, Tensor buffer) {
    DType dtype = bufferTypes.getOrDefault(name, DType.of(buffer));
    return buffer.detach().cpu().to(dtype.scalarType());
  }

  /**
   * Replaces all parameters and buffers by those of rank 0; all ranks call it together.
   *
   * @param onRankZero whole tensors by name; not looked at on the other ranks
   * @throws IllegalArgumentException on every rank, if rank 0 lacks a tensor or has one of another
   *     shape
   */
  void load(Map<String, Tensor> onRankZero) {
    requireFits(onRankZero);
    try (var off = Gradients.off()) {
      for (FlatParameter flat : flats) {
        flat.replaceValues(onRankZero);
      }
      if (world.rank() == 0) {
        model.buffers().forEach((name, buffer) -> overwrite(buffer, onRankZero.get(name)));
      }
      CoalescedBroadcast.run(world, model.buffers().values(), 0);
    }
  }

  private static void overwrite(Tensor buffer, @Nullable Tensor value) {
    if (value != null) {
      Tensors.overwrite(buffer, value);
    }
  }

  private void requireFits(Map<String, Tensor> state) {
    String problem = world.rank() == 0 ? problem(state) : "";
    byte[][] problems = ByteExchange.allGather(world, problem.getBytes(StandardCharsets.UTF_8));
    if (problems[0].length > 0) {
      throw new IllegalArgumentException(
          "Cannot load a state: %s (rank %d of %d). Use a state of the same model."
              .formatted(
                  new String(problems[0], StandardCharsets.UTF_8),
                  world.rank(),
                  world.worldSize()));
    }
  }

  private String problem(Map<String, Tensor> state) {
    Map<String, long[]> shapes = new LinkedHashMap<>();
    for (FlatParameter flat : flats) {
      for (int i = 0; i < flat.names().size(); i++) {
        shapes.put(flat.names().get(i), flat.shapes().get(i));
      }
    }
    model.buffers().forEach((name, buffer) -> shapes.put(name, Tensors.shape(buffer)));
    for (Map.Entry<String, long[]> entry : shapes.entrySet()) {
      Tensor value = state.get(entry.getKey());
      if (value == null || !Arrays.equals(Tensors.shape(value), entry.getValue())) {
        return "expected \"%s\" of shape %s, got %s"
            .formatted(
                entry.getKey(),
                Arrays.toString(entry.getValue()),
                value == null ? "none" : Tensors.describe(value));
      }
    }
    for (String name : state.keySet()) {
      if (!shapes.containsKey(name)) {
        return "expected only tensors that the model has, got \"" + name + "\"";
      }
    }
    return "";
  }
}
