package io.sparktrainer.spark.barrier;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.spark.ExceptionFailure;
import org.apache.spark.ExecutorLostFailure;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.TaskKilled;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.TaskInfo;
import org.jspecify.annotations.Nullable;

/** Follows one job and finds the first cause of its failure. */
final class FailureListener extends SparkListener {
  private final String runId;
  private final Set<Integer> stages = new HashSet<>();
  private final Map<Long, TaskInfo> running = new HashMap<>();
  private final List<RankException> exceptions = new ArrayList<>();
  private final List<String> losses = new ArrayList<>();
  private final List<String> others = new ArrayList<>();
  private final Map<String, String> removals = new HashMap<>();
  private final CountDownLatch ended = new CountDownLatch(1);
  private int jobId = -1;
  private boolean started;

  /**
   * @param runId value of the local property {@link BarrierStage#RUN_PROPERTY} of the job
   */
  FailureListener(String runId) {
    this.runId = runId;
  }

  @Override
  public synchronized void onJobStart(SparkListenerJobStart start) {
    if (start.properties() != null
        && runId.equals(start.properties().getProperty(BarrierStage.RUN_PROPERTY))) {
      jobId = start.jobId();
      start.stageIds().foreach(id -> stages.add((Integer) id));
    }
  }

  @Override
  public synchronized void onTaskStart(SparkListenerTaskStart start) {
    if (stages.contains(start.stageId())) {
      running.put(start.taskInfo().taskId(), start.taskInfo());
      started = true;
    }
  }

  @Override
  public synchronized void onTaskEnd(SparkListenerTaskEnd end) {
    if (!stages.contains(end.stageId())) {
      return;
    }
    running.remove(end.taskInfo().taskId());
    if (end.reason() instanceof ExceptionFailure failure
        && failure.exception().isDefined()
        && failure.exception().get() instanceof RankException exception) {
      exceptions.add(exception);
    } else if (end.reason() instanceof ExecutorLostFailure lost) {
      losses.add(lost(end.taskInfo(), lost));
    } else if (end.reason() instanceof TaskFailedReason failure
        && !(failure instanceof TaskKilled)) {
      others.add(failure.toErrorString());
    }
  }

  @Override
  public synchronized void onExecutorRemoved(SparkListenerExecutorRemoved removed) {
    removals.put(removed.executorId(), removed.reason());
    for (TaskInfo task : running.values()) {
      if (task.executorId().equals(removed.executorId())) {
        losses.add(
            "executor %s on host %s, which ran rank %d, was lost: %s"
                .formatted(task.executorId(), task.host(), task.index(), tidy(removed.reason())));
      }
    }
  }

  private String lost(TaskInfo task, ExecutorLostFailure lost) {
    String reason =
        removals.containsKey(task.executorId())
            ? removals.get(task.executorId())
            : lost.reason().isDefined() ? lost.reason().get() : "no reason given";
    return "executor %s on host %s, which ran rank %d, was lost: %s"
        .formatted(task.executorId(), task.host(), task.index(), tidy(reason));
  }

  private static String tidy(@Nullable String reason) {
    return reason == null ? "no reason given" : reason.strip();
  }

  @Override
  public synchronized void onJobEnd(SparkListenerJobEnd end) {
    if (end.jobId() == jobId) {
      ended.countDown();
    }
  }

  /** Whether a rank has got its slot. */
  synchronized boolean hasStarted() {
    return started;
  }

  /** Waits until the events of the job have come in, at most {@code seconds}. */
  void awaitEnd(int seconds) throws InterruptedException {
    boolean unused = ended.await(seconds, TimeUnit.SECONDS);
  }

  /**
   * The failure to report: that of the first rank that failed by itself, else a lost executor, else
   * whatever there is.
   *
   * @param thrown what the job threw
   */
  synchronized StageFailedException firstCause(Throwable thrown) {
    RankException first =
        exceptions.stream().filter(exception -> !exception.followUp()).findFirst().orElse(null);
    if (first == null && losses.isEmpty() && others.isEmpty() && !exceptions.isEmpty()) {
      first = exceptions.get(0);
    }
    if (first != null) {
      StageFailedException failure = new StageFailedException(message(first), first);
      for (RankException other : exceptions) {
        if (other != first) {
          failure.addSuppressed(other);
        }
      }
      return failure;
    }
    if (!losses.isEmpty()) {
      return new StageFailedException(
          "Cannot finish the training: %s. Look into that executor's log; a process killed for its memory needs a smaller model or batch, or more spark.executor.memoryOverhead."
              .formatted(losses.get(0).replaceFirst("\\.$", "")),
          thrown);
    }
    String text = others.isEmpty() ? String.valueOf(thrown.getMessage()) : others.get(0);
    return new StageFailedException("Cannot finish the training: " + text.strip(), thrown);
  }

  private static String message(RankException first) {
    return "Cannot finish the training: " + String.valueOf(first.getMessage());
  }
}
