package io.sparktrainer.nn;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeLibraries;
import io.sparktrainer.torch.NativeScope;
import java.nio.file.Files;
import java.nio.file.Path;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.JitModule;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.bytedeco.pytorch.named_buffer_iterator;
import org.bytedeco.pytorch.named_parameter_iterator;

/**
 * A model that PyTorch saved as TorchScript, with {@code torch.jit.save}. Inputs and the output are
 * tensors, as its {@code forward} takes and returns them; parameters and buffers have the names of
 * its state dict.
 *
 * <p>A scripted module trains as in Python: dropout and batch normalisation follow {@link #train()}
 * and {@link #eval()}, whatever mode it was saved in. A traced one does for ever what it did when
 * it was traced. A frozen one has no parameters, so nothing can be trained. What happens inside is
 * not seen from here: to fsdp the module is one unit, and activations in it cannot be checkpointed
 * in parts.
 */
public final class TorchScript extends Block implements ShardUnit {
  private final JitModule module;
  private final String source;

  private TorchScript(JitModule module, String source) {
    this.module = NativeScope.keep(module);
    this.source = source;
    var parameters = module.named_parameters();
    named_parameter_iterator afterParameters = parameters.end();
    for (var each = parameters.begin(); each.notEquals(afterParameters); each.increment()) {
      Tensor parameter = new Tensor(each.access().value());
      boolean trained = parameter.requires_grad();
      registerParameter(each.access().name().getString(), parameter);
      // What was frozen when it was saved stays frozen.
      parameter.set_requires_grad(trained && DType.of(parameter).isFloatingPoint());
    }
    var buffers = module.named_buffers();
    named_buffer_iterator afterBuffers = buffers.end();
    for (var each = buffers.begin(); each.notEquals(afterBuffers); each.increment()) {
      registerBuffer(each.access().name().getString(), new Tensor(each.access().value()));
    }
  }

  /**
   * Reads a module into host memory.
   *
   * @throws IllegalArgumentException if there is no such file, or it is no TorchScript module
   */
  public static TorchScript load(Path file) {
    if (!Files.isRegularFile(file)) {
      throw new IllegalArgumentException(
          "Cannot read a TorchScript module: expected a file, got none at " + file + ".");
    }
    NativeLibraries.load();
    try (var scope = NativeScope.open()) {
      JitModule module;
      try {
        module = torch.load(file.toString());
      } catch (RuntimeException e) {
        throw new IllegalArgumentException(
            "Cannot read a TorchScript module: expected a file that torch.jit.save wrote, got %s: %s. Save the model with torch.jit.script(model).save(file)."
                .formatted(file, firstLine(e)),
            e);
      }
      return new TorchScript(module, file.toString());
    }
  }

  private static String firstLine(RuntimeException e) {
    return String.valueOf(e.getMessage()).lines().findFirst().orElse("no reason given");
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    if (module.is_training() != training()) {
      module.train(training());
    }
    IValueVector arguments = new IValueVector();
    for (Tensor input : inputs) {
      arguments.push_back(new IValue(input));
    }
    IValue output = module.forward(arguments);
    if (!output.isTensor()) {
      throw new IllegalArgumentException(
          "Cannot use the output of %s: expected a tensor, got %s. Let its forward return one tensor."
              .formatted(this, output.tagKind().getString()));
    }
    return new Tensor(output.toTensor());
  }

  @Override
  public void close() {
    super.close();
    module.close();
  }

  @Override
  public String toString() {
    return "TorchScript module " + source;
  }
}
