package io.sparktrainer.strategy;

import io.sparktrainer.comm.LocalCommunicator;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.engine.Strategies;
import io.sparktrainer.nn.BatchNorm2d;
import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.CheckpointPolicy;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Losses;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.testing.Stack;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.VoidTensorHook;
import org.bytedeco.pytorch.global.torch;

/**
 * Counts, in a process of its own, the native objects that Java holds. Prints lines for each
 * strategy.
 */
final class NativeObjects {
  static final String BETWEEN_STEPS = "held more after many steps: ";
  static final String IN_BACKWARD = "held more by backward through many layers: ";
  static final int MORE_LAYERS = 9;
  static final int STEPS = 10;

  private static final int RANKS = 2;
  private static final int WARM_UP = 3;
  private static final int ROWS = 4;
  private static final int WIDTH = 6;

  private NativeObjects() {}

  public static void main(String[] arguments) {
    cases()
        .forEach(
            tested -> {
              System.out.println(BETWEEN_STEPS + grownOverSteps(tested) + " by " + tested);
              if (!(tested.spec() instanceof StrategySpec.Dp)) {
                Case steady = tested.withoutLag();
                long more = heldByBackward(steady, 3 + MORE_LAYERS) - heldByBackward(steady, 3);
                System.out.println(IN_BACKWARD + more + " by " + tested);
              }
            });
  }

  /** A strategy with hooks of one kind or another. */
  record Case(String name, StrategySpec spec, ComputeOptions compute) {
    /** The same hooks with no reductions under way, of which there may be more or fewer. */
    Case withoutLag() {
      return spec instanceof StrategySpec.Fsdp fsdp
          ? new Case(name, new StrategySpec.Fsdp(1, fsdp.options()), compute)
          : this;
    }

    @Override
    public String toString() {
      return name;
    }
  }

  static Stream<Case> cases() {
    ComputeOptions plain = ComputeOptions.defaults();
    ComputeOptions checkpointed =
        ComputeOptions.builder().activationCheckpointing(CheckpointPolicy.units()).build();
    var ddp = new StrategySpec.Ddp(RANKS, DdpOptions.defaults());
    var synced = new StrategySpec.Ddp(RANKS, DdpOptions.builder().syncBatchNorm(true).build());
    var unused =
        new StrategySpec.Ddp(RANKS, DdpOptions.builder().findUnusedParameters(true).build());
    var fsdp = new StrategySpec.Fsdp(RANKS, FsdpOptions.defaults());
    return Stream.of(
        new Case("none", new StrategySpec.None(0), plain),
        new Case("none, checkpointed", new StrategySpec.None(0), checkpointed),
        new Case("dp", StrategySpec.Dp.onCpu(2), plain),
        new Case("ddp", ddp, plain),
        new Case("ddp, checkpointed", ddp, checkpointed),
        new Case("ddp, find_unused_parameters", unused, plain),
        new Case("ddp, sync_batch_norm", synced, plain),
        new Case("ddp, sync_batch_norm, checkpointed", synced, checkpointed),
        new Case("fsdp", fsdp, plain),
        new Case("fsdp, checkpointed", fsdp, checkpointed));
  }

  private static long grownOverSteps(Case tested) {
    Count before = new Count(tested.spec().workers());
    Count after = new Count(tested.spec().workers());
    Count within = new Count(tested.spec().workers());
    run(
        tested,
        3,
        strategy -> {
          for (int step = 0; step < WARM_UP + STEPS; step++) {
            if (step == WARM_UP) {
              before.take();
            }
            step(strategy, within, within);
          }
          after.take();
        });
    return before.wasCollectedUntil(after)
        ? grownOverSteps(tested)
        : after.objects - before.objects;
  }

  /** By how many objects a backward pass grows until it reaches the model's input. */
  private static long heldByBackward(Case tested, int depth) {
    Count start = new Count(tested.spec().workers());
    Count end = new Count(tested.spec().workers());
    run(
        tested,
        depth,
        strategy -> {
          for (int step = 0; step < WARM_UP; step++) {
            step(strategy, start, end);
          }
        });
    return start.wasCollectedUntil(end)
        ? heldByBackward(tested, depth)
        : end.objects - start.objects;
  }

  private static void run(Case tested, int depth, Consumer<ParallelStrategy> body) {
    if (tested.spec().workers() == 1) {
      try (var strategy =
          Strategies.create(
              tested.spec(), () -> model(depth), new LocalCommunicator(), tested.compute())) {
        body.accept(strategy);
      }
      return;
    }
    RankThreads.runConnected(
        RANKS,
        communicator -> {
          try (var strategy =
              Strategies.create(
                  tested.spec(), () -> model(depth), communicator, tested.compute())) {
            body.accept(strategy);
          }
        });
  }

  private static void step(ParallelStrategy strategy, Count start, Count end) {
    strategy.zeroGrad();
    try (var scope = NativeScope.open()) {
      float[] values = new float[ROWS * WIDTH];
      for (int i = 0; i < values.length; i++) {
        values[i] = (float) Math.sin(i + strategy.rank());
      }
      Tensor x = Tensors.of(values, ROWS, WIDTH).set_requires_grad(true);
      AtomicBoolean isFirst = new AtomicBoolean(true);
      try (var probe = new Probe(end::take)) {
        x.register_hook(probe);
        strategy.forwardBackward(
            new Tensor[] {x},
            x.detach(),
            (output, target) -> {
              Tensor loss = Losses.MSE.of(output, target);
              if (isFirst.getAndSet(false)) {
                start.take();
              }
              return loss;
            },
            1,
            GradientSync.REDUCE);
      }
    }
  }

  /** Counts once all ranks have come here, while none is at work. */
  private static final class Count {
    private final CyclicBarrier meeting;
    private volatile long objects;
    private volatile long collections;

    private Count(int ranks) {
      this.meeting =
          new CyclicBarrier(
              ranks,
              () -> {
                objects = HeldObjects.count();
                collections =
                    ManagementFactory.getGarbageCollectorMXBeans().stream()
                        .mapToLong(GarbageCollectorMXBean::getCollectionCount)
                        .sum();
              });
    }

    /** A garbage collection in between may have freed what nobody had closed. */
    private boolean wasCollectedUntil(Count later) {
      return later.collections > collections;
    }

    private void take() {
      try {
        meeting.await();
      } catch (InterruptedException | BrokenBarrierException e) {
        throw new IllegalStateException("Cannot count: another rank failed.", e);
      }
    }
  }

  private static final class Probe extends VoidTensorHook {
    private final Runnable action;

    private Probe(Runnable action) {
      this.action = action;
    }

    @Override
    public void call(TensorBase gradient) {
      gradient.close();
      action.run();
    }
  }

  private static Block model(int depth) {
    Rng.seed(3);
    return new Stack(depth, Layer::new);
  }

  private static final class Layer extends Block implements ShardUnit {
    private final Linear linear = child("linear", new Linear(WIDTH, WIDTH));
    private final BatchNorm2d norm = child("norm", new BatchNorm2d(WIDTH));

    @Override
    protected Tensor forward(Tensor... inputs) {
      Tensor hidden = linear.call(inputs[0]);
      Tensor normal = norm.call(hidden.view(hidden.size(0), WIDTH, 1, 1));
      return torch.tanh(normal.view(hidden.size(0), WIDTH));
    }
  }
}
