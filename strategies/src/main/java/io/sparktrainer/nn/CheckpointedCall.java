package io.sparktrainer.nn;

import io.sparktrainer.torch.Autocast;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.GraphLeaves;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.pytorch.BoolOptional;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.TensorTensorHook;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.VoidTensorHook;
import org.bytedeco.pytorch.global.torch;

/**
 * One call of a checkpointed block, from its forward computation to the end of its backward.
 *
 * <p>libtorch offers Java no autograd function of its own, so the call is tied into the outer graph
 * by adding a zero that depends on every input and used parameter through a view (the joint). A
 * hook on the output computes again and differentiates; a hook on each joint replaces the zero
 * gradient that arrives there by the right one.
 */
final class CheckpointedCall {
  private final String name;
  private final ActivationCheckpointing owner;
  private final BlockInterceptor.Forward next;
  private final List<Tensor> inputs = new ArrayList<>();
  private final List<Long> inputVersions = new ArrayList<>();
  private final List<Integer> usedInputs = new ArrayList<>();
  private final List<Tensor> usedParameters = new ArrayList<>();
  private final List<Long> parameterVersions = new ArrayList<>();
  private final List<Tensor> gradients = new ArrayList<>(); // of used inputs, then parameters
  private final List<Hooked> hooks = new ArrayList<>();
  private final List<Tensor> buffers;
  private final Tensor randomState;
  private final Autocast.Setting autocast;
  private int undelivered;
  private boolean saved = true;

  /** A hook with what is needed to take it away; libtorch keeps no hold on the Java object. */
  private record Hooked(Tensor tensor, int id, Pointer hook) {
    void remove() {
      tensor.remove_hook(id);
      tensor.close();
      hook.close();
    }
  }

  /**
   * Saves what the second computation needs.
   *
   * @param buffers what the second computation must leave as it finds it
   */
  CheckpointedCall(
      String name,
      ActivationCheckpointing owner,
      List<Tensor> buffers,
      Tensor[] inputs,
      BlockInterceptor.Forward next) {
    this.name = name;
    this.owner = owner;
    this.buffers = buffers;
    this.next = next;
    for (Tensor input : inputs) {
      Tensor saved = NativeScope.keep(input.detach());
      saved.set_requires_grad(input.requires_grad());
      this.inputs.add(saved);
      this.inputVersions.add(input._version());
    }
    this.randomState = NativeScope.keep(Rng.state());
    this.autocast = Autocast.current();
  }

  BlockInterceptor.Forward next() {
    return next;
  }

  /** The inputs as leaves of a graph of their own, in the current scope. */
  Tensor[] copies() {
    return inputs.stream()
        .map(input -> input.detach().set_requires_grad(input.requires_grad()))
        .toArray(Tensor[]::new);
  }

  /**
   * Notes what the output depends on.
   *
   * @param copies the inputs that were used to compute it
   */
  void learn(GraphLeaves leaves, Tensor[] copies, List<Tensor> parameters) {
    for (int i = 0; i < copies.length; i++) {
      if (copies[i].requires_grad() && leaves.remove(copies[i])) {
        usedInputs.add(i);
      }
    }
    for (Tensor parameter : parameters) {
      if (parameter.requires_grad() && leaves.remove(parameter)) {
        usedParameters.add(parameter);
        parameterVersions.add(parameter._version());
      }
    }
    requireUnchanged("during its forward computation");
    if (leaves.size() > 0) {
      throw new IllegalStateException(
          "Cannot checkpoint block %s: expected it to use its inputs and parameters only, got %d other tensors that require gradients. Register them with tie() or pass them as inputs."
              .formatted(name, leaves.size()));
    }
  }

  /** Whether backward has anything to do here. */
  boolean isNeeded() {
    return !usedInputs.isEmpty() || !usedParameters.isEmpty();
  }

  /**
   * Puts the call into the outer graph.
   *
   * @param output what the block computed, without graph
   * @param arguments the inputs as the caller passed them
   * @return the output, whose gradient starts the second computation
   */
  Tensor tie(Tensor output, Tensor[] arguments) {
    List<Tensor> sources = new ArrayList<>();
    usedInputs.forEach(i -> sources.add(arguments[i]));
    sources.addAll(usedParameters);
    Tensor zero = Tensors.zeros(DType.of(output), Device.of(output));
    for (int i = 0; i < sources.size(); i++) {
      Tensor joint = NativeScope.keep(sources.get(i).view_as(sources.get(i)));
      hook(joint, new Delivery(i));
      Tensor part = joint.dim() == 0 ? joint.unsqueeze(0) : joint;
      zero = zero.add(part.narrow(0, 0, 0).sum().to(output.scalar_type()));
    }
    undelivered = sources.size();
    // The hook sits on a tensor that is only ours: hooks that others put on the output run before
    // it, and operations in place on the output do not move it.
    Tensor zeros = NativeScope.keep(zero.expand_as(output));
    Start start = NativeScope.keep(new Start());
    hooks.add(new Hooked(zeros, zeros.register_hook(start), start));
    zeros.register_hook(SecondBackward.guard(name));
    return output.add(zeros);
  }

  private void hook(Tensor joint, Delivery delivery) {
    NativeScope.keep(delivery);
    hooks.add(new Hooked(joint, joint.register_hook(delivery), delivery));
  }

  private void recompute(Tensor outputGradient) {
    if (!saved) {
      throw SecondBackward.error(name);
    }
    owner.freeFinished();
    if (Gradients.areOn()) {
      throw new IllegalStateException(
          "Cannot differentiate block %s twice: expected backward without create_graph. Switch activation checkpointing off for second derivatives."
              .formatted(name));
    }
    requireUnchanged("before backward reached it");
    Recomputation.enter();
    try (var scope = NativeScope.open();
        var on = Gradients.on();
        var cast = Autocast.restored(autocast)) {
      Tensor randomNow = Rng.state();
      // Batch norm does not raise the version of what it changes, so all buffers are put back.
      List<Tensor> buffersNow = buffers.stream().map(buffer -> buffer.detach().clone()).toList();
      try {
        Rng.restore(randomState);
        differentiate(outputGradient);
      } finally {
        Rng.restore(randomNow);
        for (int i = 0; i < buffersNow.size(); i++) {
          Tensors.overwrite(buffers.get(i), buffersNow.get(i));
        }
      }
    } finally {
      Recomputation.leave();
    }
    owner.recomputed();
    closeSaved();
  }

  private void differentiate(Tensor outputGradient) {
    Tensor[] copies = copies();
    Tensor output = next.apply(copies);
    List<Tensor> sources = new ArrayList<>();
    usedInputs.forEach(i -> sources.add(copies[i]));
    sources.addAll(usedParameters);
    TensorVector found =
        torch.grad(
            new TensorVector(output),
            new TensorVector(sources.toArray(Tensor[]::new)),
            new TensorVector(outputGradient),
            new BoolOptional(),
            false,
            true);
    for (int i = 0; i < found.size(); i++) {
      gradients.add(NativeScope.keep(new Tensor(found.get(i))));
    }
  }

  private void requireUnchanged(String when) {
    for (int i = 0; i < inputs.size(); i++) {
      if (inputs.get(i)._version() != inputVersions.get(i)) {
        throw new IllegalStateException(
            "Cannot checkpoint block %s: expected its input %d to keep its values until backward, but it was changed in place %s."
                .formatted(name, i, when));
      }
    }
    for (int i = 0; i < usedParameters.size(); i++) {
      if (usedParameters.get(i)._version() != parameterVersions.get(i)) {
        throw new IllegalStateException(
            "Cannot checkpoint block %s: expected its parameters to keep their values until backward, but one of shape %s was changed in place %s."
                .formatted(name, Tensors.describe(usedParameters.get(i)), when));
      }
    }
  }

  private void closeSaved() {
    if (saved) {
      saved = false;
      inputs.forEach(Tensor::close);
      randomState.close();
    }
  }

  /** Gives back everything. A later backward pass through the call is an error. */
  void free() {
    hooks.forEach(Hooked::remove);
    hooks.clear();
    gradients.forEach(Tensor::close);
    gradients.clear();
    closeSaved();
  }

  /** Starts the second computation when the output's gradient is known. */
  private final class Start extends VoidTensorHook {
    @Override
    public void call(TensorBase gradient) {
      // The argument belongs to the scope around backward, which would keep it until the step ends.
      try (gradient;
          var scope = NativeScope.open()) {
        recompute(new Tensor(gradient));
        SecondBackward.handled();
      } catch (RuntimeException e) {
        RuntimeException named = named(e);
        owner.failed(named);
        throw named;
      }
    }

    private RuntimeException named(RuntimeException e) {
      if (e.getMessage() != null && e.getMessage().contains("block " + name)) {
        return e;
      }
      return new IllegalStateException(
          "Cannot compute block %s a second time for backward: %s".formatted(name, e.getMessage()),
          e);
    }
  }

  /** Replaces the zero gradient at a joint. */
  private final class Delivery extends TensorTensorHook {
    private final int index;

    private Delivery(int index) {
      this.index = index;
    }

    @Override
    public TensorBase call(TensorBase zero) {
      zero.close();
      if (--undelivered == 0) {
        owner.finished(CheckpointedCall.this);
      }
      return gradients.get(index);
    }
  }
}
