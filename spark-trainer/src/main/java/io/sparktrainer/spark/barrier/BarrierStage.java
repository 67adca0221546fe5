package io.sparktrainer.spark.barrier;

import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.resource.ResourceProfile;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.reflect.ClassTag$;

/** Runs one program on all ranks at once, as the barrier stage of one job. */
public final class BarrierStage {
  static final String RUN_PROPERTY = "sparktrainer.run";
  private static final String INTERRUPT_PROPERTY = "spark.job.interruptOnCancel";
  private static final String DESCRIPTION_PROPERTY = "spark.job.description";
  private static final int LISTENER_WAIT_SECONDS = 10;
  private static final int NOTICE_SECONDS = 10;

  private static final Logger LOG = LoggerFactory.getLogger(BarrierStage.class);

  private BarrierStage() {}

  /**
   * Checks that all ranks can run at once.
   *
   * @throws StageFailedException if dynamic allocation is on, there are too few slots, or the
   *     master cannot give the resources that the options ask for
   */
  public static void requireSlots(SparkContext spark, int workers, StageOptions options) {
    Placement unused = new Slots(spark, options).require(workers);
  }

  /**
   * Runs the program on each partition of {@code rows}, which are the ranks, and waits.
   *
   * @return what the ranks returned, by rank
   * @throws StageFailedException with the first cause, if a rank failed or could not be started
   */
  public static <T> List<String> run(
      JavaRDD<T> rows, RankProgram<T> program, StageOptions options) {
    RDD<T> rdd = rows.rdd();
    SparkContext spark = rdd.sparkContext();
    Placement placement = new Slots(spark, options).require(rdd.getNumPartitions());
    RDD<String> ranks =
        rdd.barrier()
            .mapPartitions(
                new RankTask<>(program, placement, options),
                false,
                ClassTag$.MODULE$.apply(String.class));
    ResourceProfile profile = placement.profile();
    if (profile != null) {
      ranks = ranks.withResources(profile);
    }
    return collect(spark, ranks, options);
  }

  private static List<String> collect(SparkContext spark, RDD<String> ranks, StageOptions options) {
    String runId = UUID.randomUUID().toString();
    FailureListener listener = new FailureListener(runId);
    spark.addSparkListener(listener);
    String interrupt = spark.getLocalProperty(INTERRUPT_PROPERTY);
    String before = spark.getLocalProperty(DESCRIPTION_PROPERTY);
    spark.setLocalProperty(RUN_PROPERTY, runId);
    // Without it, ranks that outlive a failed one are only flagged and keep their slots.
    spark.setLocalProperty(INTERRUPT_PROPERTY, "true");
    spark.setLocalProperty(DESCRIPTION_PROPERTY, options.description());
    CompletableFuture<Void> notice = noticeWaiting(listener, options);
    try {
      return Arrays.asList((String[]) ranks.collect());
    } catch (Exception e) {
      throw failure(listener, e);
    } finally {
      notice.cancel(false);
      spark.setLocalProperty(RUN_PROPERTY, null);
      spark.setLocalProperty(INTERRUPT_PROPERTY, interrupt);
      spark.setLocalProperty(DESCRIPTION_PROPERTY, before);
      spark.removeSparkListener(listener);
    }
  }

  /** Spark says nothing while other jobs keep the slots that were counted. */
  private static CompletableFuture<Void> noticeWaiting(
      FailureListener listener, StageOptions options) {
    return CompletableFuture.runAsync(
        () -> {
          if (!listener.hasStarted()) {
            LOG.warn(
                "'{}' waits for slots: other jobs of this application use them. It starts when they are free.",
                options.description());
          }
        },
        CompletableFuture.delayedExecutor(
            Math.max(NOTICE_SECONDS, options.slotWaitSeconds()), TimeUnit.SECONDS));
  }

  private static StageFailedException failure(FailureListener listener, Exception thrown) {
    try {
      listener.awaitEnd(LISTENER_WAIT_SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return listener.firstCause(thrown);
  }
}
