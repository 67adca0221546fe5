package io.sparktrainer.strategy.dp;

import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.strategy.Computation;
import io.sparktrainer.strategy.ComputeOptions;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ReplicaStrategy;
import io.sparktrainer.strategy.StrategySpec;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Gradients;
import io.sparktrainer.torch.NativeOperator;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.function.Supplier;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/**
 * Data parallel in one process: each micro-batch is cut into pieces (see {@link Scatter}), each
 * replica runs forward, loss and backward on its piece on a thread of its own, gradients are added
 * up in the root, and the optimizer steps there. PyTorch's {@code DataParallel}, which it has for
 * GPUs only; here it also runs on the CPU, where all replicas read the same parameter memory and
 * only gradients and activations are per replica.
 *
 * <ul>
 *   <li>Each piece's loss counts by its share of the rows, so a loss that is a mean over rows gives
 *       the value and the gradients of the whole batch, also when pieces differ in size. (A loss
 *       that averages over something else, such as tokens that are not padding, is averaged by
 *       rows.)
 *   <li>{@link #predict} joins the replicas' outputs along the first dimension; outputs without
 *       dimensions are averaged by rows.
 *   <li>Buffers are copied from the root before each forward pass, and the root is replica 0: its
 *       changes stay, the other replicas' are lost. So batch normalisation in training mode
 *       normalises each piece by itself, and keeps the running statistics of the first piece.
 *   <li>Grad mode, autocast and random state are set on each thread; with several pieces each draws
 *       from a sequence of its own, seeded from the calling thread's. With one piece everything is
 *       as under {@code none}.
 * </ul>
 */
public final class DpStrategy extends ReplicaStrategy {
  private final List<Replica> followers = new ArrayList<>(); // replicas 1, 2, ...
  private final int replicas;
  private final ReplicaThreads threads;

  /**
   * Takes over {@code communicator} and the models.
   *
   * @param model builds the model, the same each time it is called; called once per replica
   * @throws IllegalArgumentException if the group has more than one rank, if the model has no
   *     trainable parameter, or if {@code model} returns different models
   */
  public DpStrategy(
      Supplier<? extends Block> model,
      Communicator communicator,
      StrategySpec.Dp spec,
      ComputeOptions options) {
    super(root(model, communicator, spec), communicator, options.withDevice(device(spec, 0)));
    this.replicas = spec.replicas();
    this.threads = new ReplicaThreads(replicas, Threads.inUse());
    try (var scope = NativeScope.open()) {
      // Replicas take over the root's values: what they draw must not change the run.
      Tensor random = Rng.state();
      for (int i = 1; i < replicas; i++) {
        followers.add(new Replica(model(), model.get(), device(spec, i), options));
      }
      Rng.restore(random);
    }
  }

  private static Block root(
      Supplier<? extends Block> model, Communicator communicator, StrategySpec.Dp spec) {
    if (communicator.worldSize() != 1) {
      throw new IllegalArgumentException(
          "Cannot use strategy dp: expected one rank on one host, got %d ranks. Use ddp for several."
              .formatted(communicator.worldSize()));
    }
    Block root = model.get();
    root.moveTo(device(spec, 0));
    return root;
  }

  private static Device device(StrategySpec.Dp spec, int replica) {
    return spec.deviceIds().isEmpty() ? Device.CPU : Device.cuda(spec.deviceIds().get(replica));
  }

  /** The model that replica {@code index} runs; the root's for 0. */
  Block replica(int index) {
    return index == 0 ? model() : followers.get(index - 1).model();
  }

  @Override
  public String name() {
    return "dp";
  }

  @Override
  protected Tensor compute(
      Tensor[] inputs,
      Tensor target,
      @Nullable Tensor weight,
      Loss loss,
      double scale,
      GradientSync sync) {
    List<Scatter.Piece> pieces = Scatter.cut(inputs, target, weight, replicas);
    if (pieces.size() == 1) {
      return super.compute(inputs, target, weight, loss, scale, sync);
    }
    List<Tensor> losses =
        runPieces(
            pieces,
            (piece, computation, stop) -> {
              Tensor value =
                  computation.loss(piece.inputArray(), target(piece), piece.rowWeight(), loss);
              if (stop.isRequested()) {
                throw new CancellationException("Stopped before backward: another replica failed.");
              }
              value.mul(Tensors.scalar(scale * piece.weight())).backward();
              return value.detach();
            });
    reduceGradients(pieces.size());
    return weightedSum(losses, pieces);
  }

  private static Tensor target(Scatter.Piece piece) {
    if (piece.target() == null) {
      throw new IllegalStateException("A piece to train on has a target.");
    }
    return piece.target();
  }

  @Override
  protected void backward(Tensor loss, GradientSync sync) {
    loss.backward();
  }

  @Override
  protected Tensor output(Tensor... inputs) {
    List<Scatter.Piece> pieces = Scatter.cut(inputs, null, null, replicas);
    if (pieces.size() == 1) {
      return super.output(inputs);
    }
    List<Tensor> outputs =
        runPieces(pieces, (piece, computation, stop) -> computation.output(piece.inputArray()));
    if (outputs.get(0).dim() == 0) {
      return weightedSum(outputs, pieces);
    }
    return torch.cat(new TensorVector(outputs.toArray(Tensor[]::new)));
  }

  /** What a replica does with its piece. */
  @FunctionalInterface
  private interface PieceWork {
    Tensor run(Scatter.Piece piece, Computation computation, ReplicaThreads.Stop stop);
  }

  /** The results, on the root's device and in the caller's scope. */
  private List<Tensor> runPieces(List<Scatter.Piece> pieces, PieceWork work) {
    boolean recorded = Gradients.areOn();
    long seed = Rng.draw();
    for (int i = 1; i < pieces.size(); i++) {
      followers.get(i - 1).follow();
    }
    List<Tensor> results =
        threads.run(
            pieces.size(),
            (index, stop) -> {
              Replica follower = index == 0 ? null : followers.get(index - 1);
              Computation computation = follower == null ? computation() : follower.computation();
              try (var scope = NativeScope.open();
                  var mode = recorded ? Gradients.on() : Gradients.off()) {
                Rng.seed(seed + index);
                return scope.pass(
                    work.run(onDevice(pieces.get(index), follower), computation, stop));
              } catch (RuntimeException e) {
                throw computation.explain(e);
              } finally {
                computation.release();
              }
            });
    return results.stream().map(this::adopt).toList();
  }

  /** Moves a result that another thread made into the caller's scope, onto the root's device. */
  private Tensor adopt(Tensor result) {
    try (result) {
      Device home = Device.of(trainable().values().iterator().next());
      return Device.of(result).equals(home)
          ? new Tensor(result)
          : result.to(home.toNative(), result.scalar_type());
    }
  }

  private static Scatter.Piece onDevice(Scatter.Piece piece, @Nullable Replica follower) {
    if (follower == null || !follower.device().isCuda()) {
      return piece;
    }
    Device device = follower.device();
    List<Tensor> inputs =
        piece.inputs().stream()
            .map(input -> input.to(device.toNative(), input.scalar_type()))
            .toList();
    return new Scatter.Piece(
        inputs, moved(piece.target(), device), moved(piece.rowWeight(), device), piece.weight());
  }

  private static @Nullable Tensor moved(@Nullable Tensor tensor, Device device) {
    return tensor == null ? null : tensor.to(device.toNative(), tensor.scalar_type());
  }

  /** Adds the gradients of the replicas that ran to the root's, and clears them. */
  private void reduceGradients(int ran) {
    try (var scope = NativeScope.open();
        var off = Gradients.off()) {
      for (Replica follower : followers.subList(0, ran - 1)) {
        List<Tensor> sums = new ArrayList<>();
        List<Tensor> terms = new ArrayList<>();
        for (Tensor parameter : trainable().values()) {
          Tensor twin = follower.twin(parameter);
          // A handle of its own: grad() is only an alias of what clearGrad empties.
          Tensor term = new Tensor(twin.grad());
          if (!term.defined()) {
            continue;
          }
          Tensor here =
              follower.device().equals(Device.of(parameter))
                  ? term
                  : term.to(Device.of(parameter).toNative(), term.scalar_type());
          Tensor sum = parameter.grad();
          if (sum.defined()) {
            sums.add(sum);
            terms.add(here);
          } else {
            Tensors.setGrad(parameter, here);
          }
          Tensors.clearGrad(twin);
        }
        if (!sums.isEmpty()) {
          AddAll.OPERATOR.call().with(sums).with(terms).withScalar(1).run();
        }
      }
    }
  }

  private static final class AddAll {
    static final NativeOperator OPERATOR = NativeOperator.find("aten::_foreach_add_", "List");
  }

  private static Tensor weightedSum(List<Tensor> values, List<Scatter.Piece> pieces) {
    Tensor sum = values.get(0).mul(Tensors.scalar(pieces.get(0).weight()));
    for (int i = 1; i < values.size(); i++) {
      sum = sum.add(values.get(i).mul(Tensors.scalar(pieces.get(i).weight())));
    }
    return sum;
  }

  @Override
  protected void release() {
    threads.close();
    followers.forEach(Replica::close);
  }
}
