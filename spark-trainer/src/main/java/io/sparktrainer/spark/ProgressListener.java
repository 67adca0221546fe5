package io.sparktrainer.spark;

import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.engine.StepMetrics;
import io.sparktrainer.engine.TrainingListener;
import io.sparktrainer.spark.barrier.Rank;
import io.sparktrainer.spark.metrics.DeviceMemory;
import io.sparktrainer.spark.metrics.MetricRecord;
import io.sparktrainer.spark.metrics.MetricsAddress;
import io.sparktrainer.spark.metrics.MetricsClient;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Sends a rank's figures to the driver, and keeps track of the step for the rank's messages. */
final class ProgressListener implements TrainingListener, AutoCloseable {
  private final Rank rank;
  private final DeviceGauge gauge;
  private final @Nullable MetricsClient client;

  /**
   * @param gauge read after the first step and after each epoch
   * @param address the driver's listener, or null for none
   */
  ProgressListener(Rank rank, DeviceGauge gauge, @Nullable MetricsAddress address) {
    this.rank = rank;
    this.gauge = gauge;
    this.client = address == null ? null : new MetricsClient(address);
    rank.doing("epoch 1, step 1");
  }

  /** Tells the driver what is about to be done; rank 0 speaks for all. */
  void onStart(MetricRecord.Start start) {
    if (client != null && rank.rank() == 0) {
      client.accept(start);
    }
  }

  @Override
  public void onStep(StepMetrics step) {
    rank.doing("epoch %d, step %d".formatted(step.epoch() + 1, step.step() + 2));
    if (step.epoch() == 0 && step.step() == 0) {
      gauge.read();
    }
    if (client != null) {
      client.accept(new MetricRecord.Step(rank.rank(), step));
    }
  }

  @Override
  public void onEpoch(EpochMetrics epoch) {
    rank.doing("epoch %d, step 1".formatted(epoch.epoch() + 2));
    List<DeviceMemory> memory = gauge.readEpoch(epoch.epoch());
    if (client != null) {
      memory.forEach(figures -> client.accept(new MetricRecord.Memory(figures)));
    }
    if (client != null && rank.rank() == 0) {
      client.accept(new MetricRecord.Epoch(epoch));
    }
  }

  @Override
  public void close() {
    if (client != null) {
      client.close();
    }
  }
}
