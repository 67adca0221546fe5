package io.sparktrainer.engine;

import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.nn.Loss;
import io.sparktrainer.optim.Clipping;
import io.sparktrainer.optim.Optimizer;
import io.sparktrainer.optim.ScheduleSpec;
import io.sparktrainer.strategy.GradientSync;
import io.sparktrainer.strategy.ParallelStrategy;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Rng;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The training loop of one rank, over any strategy: epochs of optimizer steps of one or several
 * micro-batches, clipping, the learning-rate schedule, and an evaluation after each epoch. All
 * ranks run it together with the same options.
 *
 * <p>Without weights a step's loss is what the strategy makes of the ranks' means: the mean of them
 * under ddp and fsdp, as in PyTorch. With weights it is the weighted mean over all rows of the step
 * on all ranks, sum(w * loss) / sum(w), under every strategy. Losses and accuracies of an epoch are
 * means over all rows, with their weights.
 */
public final class Trainer {
  private final ParallelStrategy strategy;
  private final Optimizer optimizer;
  private final ScheduleSpec schedule;
  private final Loss loss;
  private final TrainingOptions options;
  private final TrainingListener listener;
  private long stepsDone;

  /**
   * Uses, but does not close, what it is given.
   *
   * @param optimizer over {@code strategy.trainable()}
   */
  public Trainer(
      ParallelStrategy strategy,
      Optimizer optimizer,
      ScheduleSpec schedule,
      Loss loss,
      TrainingOptions options,
      TrainingListener listener) {
    this.strategy = strategy;
    this.optimizer = optimizer;
    this.schedule = schedule;
    this.loss = loss;
    this.options = options;
    this.listener = listener;
  }

  /**
   * Trains.
   *
   * @param train this rank's training rows, in host memory
   * @param evaluation this rank's evaluation rows, in host memory, or null for none on any rank
   * @return the metrics of each epoch, the same on every rank
   * @throws TrainingException with the first thing that went wrong on this rank as its cause
   */
  public List<EpochMetrics> fit(BatchSource train, @Nullable BatchSource evaluation) {
    Rng.seed(options.seed() + strategy.rank());
    int epoch = 0;
    try (var here = new DeviceBatches(train, strategy.device());
        var test = evaluation == null ? null : new DeviceBatches(evaluation, strategy.device())) {
      requireSameSteps(train);
      List<EpochMetrics> epochs = new ArrayList<>();
      for (; epoch < options.epochs(); epoch++) {
        EpochMetrics metrics = epoch(epoch, here, test);
        epochs.add(metrics);
        listener.onEpoch(metrics);
      }
      return epochs;
    } catch (RuntimeException | Error e) {
      throw new TrainingException(
          "Cannot go on training: %s (rank %d of %d, epoch %d, step %d)"
              .formatted(e.getMessage(), strategy.rank(), strategy.worldSize(), epoch, stepsDone),
          strategy.rank(),
          stepsDone,
          e);
    }
  }

  /** Unequal numbers leave some ranks waiting for ever, unless the strategy provides for them. */
  private void requireSameSteps(BatchSource train) {
    try (var scope = NativeScope.open()) {
      long mine = train.batchesPerEpoch();
      Tensor extremes = Tensors.of(new long[] {mine, -mine}, 2);
      strategy.communicator().allReduce(extremes, ReduceOp.MAX).await();
      long[] values = Tensors.toLongs(extremes);
      boolean uneven = values[0] != -values[1] && !strategy.allowsUnevenSteps();
      if (uneven || values[0] < 1) {
        throw new IllegalArgumentException(
            "expected the same number of batches, at least 1, on every rank, got %d to %d. Deal out equal numbers, or set ddp.uneven_inputs"
                .formatted(-values[1], values[0]));
      }
    }
  }

  private EpochMetrics epoch(int epoch, BatchSource train, @Nullable BatchSource evaluation) {
    long start = System.nanoTime();
    Tally tally = new Tally(loss);
    int batches = train.batchesPerEpoch();
    int stepsHere = (batches + options.accumulate() - 1) / options.accumulate();
    int steps = Math.toIntExact(strategy.beginEpoch(stepsHere));
    Iterator<TensorBatch> iterator = train.epoch(epoch);
    strategy.model().train();
    for (int step = 0; step < stepsHere; step++) {
      int microBatches = Math.min(options.accumulate(), batches - step * options.accumulate());
      listener.onStep(step(epoch, step, steps, microBatches, iterator, train, tally));
    }
    for (int step = stepsHere; step < steps; step++) {
      shadow(steps, train);
    }
    strategy.endEpoch();
    double seconds = (System.nanoTime() - start) / 1e9;
    tally.combine(strategy.communicator());
    tally.requireWeight("training");
    Tally evaluated = new Tally(loss);
    if (evaluation != null) {
      evaluate(evaluation, evaluated);
    }
    return new EpochMetrics(
        epoch,
        tally.loss(),
        tally.accuracy(),
        evaluated.rows() == 0 ? null : evaluated.loss(),
        evaluated.accuracy(),
        tally.rows(),
        seconds);
  }

  private StepMetrics step(
      int epoch,
      int step,
      int steps,
      int microBatches,
      Iterator<TensorBatch> batches,
      BatchSource source,
      Tally tally) {
    long start = System.nanoTime();
    strategy.zeroGrad();
    double lossSum = 0;
    double weightSum = 0;
    int rows = 0;
    for (int i = 0; i < microBatches; i++) {
      try (var scope = NativeScope.open()) {
        TensorBatch batch = batches.next();
        Tensor value =
            strategy.forwardBackward(
                batch.inputArray(),
                batch.target(),
                batch.weight(),
                tally.counting(),
                batch.weight() == null ? 1.0 / microBatches : batch.rows() / weightUnit(source),
                i == microBatches - 1 ? GradientSync.REDUCE : GradientSync.ACCUMULATE);
        double batchLoss = value.item_double() * batch.rows();
        double batchWeight = batch.weightSum();
        if (Double.isFinite(batchLoss)) {
          tally.add(batchLoss, batchWeight, batch.rows());
        }
        lossSum += batchLoss;
        weightSum += batchWeight;
        rows += batch.rows();
      }
    }
    strategy.communicator().requireIntact();
    Update update = update(steps, lossSum, gradientFactor(source, weightSum));
    double seconds = (System.nanoTime() - start) / 1e9;
    return new StepMetrics(
        epoch,
        step,
        steps,
        weightSum == 0 ? 0 : lossSum / weightSum,
        update.learningRate(),
        update.gradNorm(),
        rows,
        seconds);
  }

  /** A step for which only other ranks have data; the model changes here as it does there. */
  private void shadow(int steps, BatchSource source) {
    strategy.zeroGrad();
    strategy.shadowStep();
    update(steps, 0, gradientFactor(source, 0));
  }

  /** What weighted losses are divided by in backward, the same on all ranks. */
  private double weightUnit(BatchSource source) {
    return (double) source.batchRows() * options.accumulate();
  }

  /**
   * Makes of summed weighted losses their mean over all rows of the step, on all ranks. Its
   * denominator is only known after the last micro-batch, so gradients are scaled afterwards.
   *
   * @param weightSum of this rank's rows
   */
  private double gradientFactor(BatchSource source, double weightSum) {
    if (!source.isWeighted()) {
      return 1;
    }
    try (var scope = NativeScope.open()) {
      Tensor sum = Tensors.empty(DType.FLOAT64, Device.CPU, 1);
      sum.fill_(Tensors.scalar(weightSum));
      strategy.communicator().allReduce(sum, ReduceOp.SUM).await();
      double all = sum.item_double();
      return all == 0 ? 0 : strategy.gradientDivisor() * weightUnit(source) / all;
    }
  }

  private record Update(double learningRate, @Nullable Double gradNorm) {}

  private Update update(int steps, double lossSum, double gradientFactor) {
    boolean usable = strategy.unscaleGradients();
    Double gradNorm = null;
    if (usable) {
      requireFinite(lossSum);
      scaleGradients(gradientFactor);
      gradNorm = clip();
    }
    double learningRate =
        optimizer.baseLearningRate() * schedule.factor(stepsDone, (long) steps * options.epochs());
    if (usable) {
      optimizer.step(learningRate);
    }
    // A skipped step counts, so that data and schedule go on alike on all ranks.
    stepsDone++;
    return new Update(learningRate, gradNorm);
  }

  private void scaleGradients(double factor) {
    if (factor != 1) {
      try (var scope = NativeScope.open()) {
        Tensor scalar = Tensors.empty(DType.FLOAT64, Device.CPU);
        scalar.fill_(Tensors.scalar(factor));
        Clipping.scale(strategy.trainable().values(), scalar);
      }
    }
  }

  private @Nullable Double clip() {
    if (options.clipGradValue() != null) {
      strategy.clipGradValue(options.clipGradValue());
    }
    return options.clipGradNorm() == null ? null : strategy.clipGradNorm(options.clipGradNorm());
  }

  private void requireFinite(double lossSum) {
    if (!Double.isFinite(lossSum)) {
      throw new ArithmeticException(
          "the loss is "
              + lossSum
              + ". Lower the learning rate, clip gradients (training.clip_grad_norm) or look for"
              + " values out of range in the features");
    }
  }

  private void evaluate(BatchSource evaluation, Tally tally) {
    strategy.model().eval();
    Iterator<TensorBatch> batches = evaluation.epoch(0);
    Loss counting = tally.counting();
    JointPrediction joint = new JointPrediction(evaluation.batchesPerEpoch(), strategy);
    for (int i = 0; i < evaluation.batchesPerEpoch(); i++) {
      try (var scope = NativeScope.open()) {
        TensorBatch batch = batches.next();
        Tensor output = strategy.predict(batch.inputArray());
        Tensor mean =
            batch.weight() == null
                ? counting.of(output, batch.target())
                : counting.weighted(output, batch.target(), batch.weight());
        tally.add(mean.item_double() * batch.rows(), batch.weightSum(), batch.rows());
      }
    }
    joint.finish();
    tally.combine(strategy.communicator());
    tally.requireWeight("evaluation");
    strategy.model().train();
  }
}
