package io.sparktrainer.strategy.plan;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.BlockInterceptor;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.strategy.Computation;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.ProcessMemory;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

/**
 * What one batch's pass holds when it holds most: tensors kept for backward, and those that blocks
 * still work with.
 */
public final class ActivationProbe {
  // The heap may serve a pass from memory that it already holds; then that pass grows too little.
  private static final int PASSES = 4;

  private ActivationProbe() {}

  /**
   * Measures by running one batch forward on the CPU, a few times, reading the growth of the
   * process at the end of every block, after what is free in the native heap has been given back.
   * Backward is left out, since it holds less; but where blocks are checkpointed it holds more, and
   * is run too: a block's second computation comes on top of what all of them keep. The model's
   * gradients are cleared then.
   *
   * @param inputs one batch's inputs on the CPU
   * @param options precision and checkpointing of the training
   * @throws java.io.UncheckedIOException if the system does not tell
   */
  public static long measure(
      Block model, Tensor[] inputs, Tensor target, Loss loss, ComputeOptions options) {
    Watermark watermark = new Watermark(model);
    Map<String, Block> blocks = model.blocks();
    // Before checkpointing is installed, and so inside it: it sees second computations as well.
    blocks.values().forEach(block -> block.intercept(watermark));
    try (Computation computation = new Computation(model, options)) {
      long largest = 0;
      for (int pass = 0; pass < PASSES; pass++) {
        ProcessMemory.trimNativeHeap();
        watermark.begin();
        try (var scope = NativeScope.open();
            var recorded = Gradients.on()) {
          Tensor value = computation.loss(inputs, target, loss);
          watermark.read();
          if (options.activationCheckpointing() != null) {
            value.backward();
          }
        }
        computation.release();
        if (options.activationCheckpointing() != null) {
          model.parameters().values().forEach(Tensors::clearGrad);
        }
        // In the first pass libraries allocate what they keep.
        largest = pass == 0 ? 0 : Math.max(largest, watermark.growth());
      }
      return largest;
    } finally {
      blocks.values().forEach(block -> block.removeInterceptor(watermark));
    }
  }

  /**
   * Estimates, for a model that is too large to run, from its matrices: one of shape [out, in]
   * reads in values and writes out values at each position, all kept. For a transformer that is 16
   * values of the width per layer and position, where Korthikanti et al. (arXiv 2205.05198) count
   * 17 with the attention scores left out.
   *
   * @param matrixPositions how often a matrix is applied to a batch: rows, times the tokens of a
   *     row
   * @param kernelPositions how often a convolution's kernel is: rows, times the pixels of a row
   * @param bytesPerValue size of the type in which blocks compute
   */
  public static long estimate(
      ModelOutline model, long matrixPositions, long kernelPositions, int bytesPerValue) {
    return Math.multiplyExact(
        values(model.parameters(), matrixPositions, kernelPositions), bytesPerValue);
  }

  /**
   * The same where blocks are checkpointed: of each only what its first matrix reads is kept, and
   * one block at a time, here the largest, is computed again.
   *
   * @param model described with the checkpointed blocks as its units
   */
  public static long estimateCheckpointed(
      ModelOutline model, long matrixPositions, long kernelPositions, int bytesPerValue) {
    long kept = 0;
    long computedAgain = 0;
    for (UnitOutline unit : model.units()) {
      long whole = values(unit.parameters(), matrixPositions, kernelPositions);
      if (unit.name().isEmpty()) {
        kept = Math.addExact(kept, whole);
      } else {
        kept = Math.addExact(kept, input(unit, matrixPositions, kernelPositions));
        computedAgain = Math.max(computedAgain, whole);
      }
    }
    return Math.multiplyExact(Math.addExact(kept, computedAgain), bytesPerValue);
  }

  private static long values(
      List<ParameterOutline> parameters, long matrixPositions, long kernelPositions) {
    long values = 0;
    for (ParameterOutline parameter : parameters) {
      if (isMatrix(parameter)) {
        long outAndIn = parameter.shape().get(0) + parameter.shape().get(1);
        long positions = positions(parameter, matrixPositions, kernelPositions);
        values = Math.addExact(values, Math.multiplyExact(outAndIn, positions));
      }
    }
    return values;
  }

  private static long input(UnitOutline unit, long matrixPositions, long kernelPositions) {
    return unit.parameters().stream()
        .filter(ActivationProbe::isMatrix)
        .findFirst()
        .map(first -> first.shape().get(1) * positions(first, matrixPositions, kernelPositions))
        .orElse(0L);
  }

  private static boolean isMatrix(ParameterOutline parameter) {
    return parameter.shape().size() > 1;
  }

  private static long positions(
      ParameterOutline matrix, long matrixPositions, long kernelPositions) {
    return matrix.shape().size() == 2 ? matrixPositions : kernelPositions;
  }

  private static final class Watermark implements BlockInterceptor {
    private final Block model;
    private long start;
    private long highest;

    private Watermark(Block model) {
      this.model = model;
    }

    private void begin() {
      start = ProcessMemory.anonymousBytes() - gradientBytes();
      highest = start;
    }

    private void read() {
      ProcessMemory.trimNativeHeap();
      highest = Math.max(highest, ProcessMemory.anonymousBytes() - gradientBytes());
    }

    /** Of parameters, which are planned for apart. */
    private long gradientBytes() {
      try (var scope = NativeScope.open()) {
        return model.parameters().values().stream()
            .map(Tensor::grad)
            .filter(Tensor::defined)
            .mapToLong(gradient -> gradient.numel() * DType.of(gradient).bytes())
            .sum();
      }
    }

    private long growth() {
      return highest - start;
    }

    @Override
    public Tensor intercept(Block block, Tensor[] inputs, Forward next) {
      Tensor output = next.apply(inputs);
      // Here the block's own scope still holds what it worked with.
      read();
      return output;
    }
  }
}
