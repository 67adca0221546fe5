package io.sparktrainer.nn;

import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.GraphLeaves;
import io.sparktrainer.torch.NativeScope;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/** Runs one block so that its activations are freed at once and computed again for backward. */
final class CheckpointedBlock implements BlockInterceptor {
  private final String name;
  private final List<Tensor> parameters;
  private final List<Tensor> buffers;
  private final ActivationCheckpointing owner;

  CheckpointedBlock(String name, Block block, ActivationCheckpointing owner) {
    this.name = name;
    this.parameters = List.copyOf(block.parameters().values());
    this.buffers = List.copyOf(block.buffers().values());
    this.owner = owner;
  }

  @Override
  public Tensor intercept(Block block, Tensor[] inputs, Forward next) {
    if (!Gradients.areOn()) {
      return next.apply(inputs);
    }
    owner.freeFinished();
    CheckpointedCall call = new CheckpointedCall(name, owner, buffers, inputs, next);
    try (var scope = NativeScope.open()) {
      int mark = owner.waitingCalls();
      Tensor output = firstRun(call);
      // Calls of blocks inside this one belong to a graph that is gone.
      owner.releaseSince(mark);
      if (!call.isNeeded()) {
        call.free();
        return scope.pass(output);
      }
      Tensor tied = scope.pass(call.tie(output, inputs));
      owner.waits(call);
      return tied;
    } catch (RuntimeException | Error e) {
      call.free();
      throw e;
    }
  }

  /**
   * Computes the output, cut off from its graph. The graph is built nevertheless: it tells which
   * inputs and parameters matter, and costs no memory that the second computation does not need
   * too.
   */
  private Tensor firstRun(CheckpointedCall call) {
    try (var scope = NativeScope.open()) {
      Tensor[] copies = call.copies();
      Tensor output = call.next().apply(copies);
      if (output.requires_grad()) {
        call.learn(GraphLeaves.of(output), copies, parameters);
      }
      return scope.pass(output.requires_grad() ? output.detach() : output);
    }
  }
}
