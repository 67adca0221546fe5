package io.sparktrainer.spark.barrier;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.BarrierTaskContext;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** The task of one rank: joins, runs the program, and ends by one of the two exits. */
final class RankTask<T> extends AbstractFunction1<Iterator<T>, Iterator<String>>
    implements Serializable {
  private static final long serialVersionUID = 1L;

  /**
   * How long a rank that lost its peers waits for the driver to kill it. Spark reports the failure
   * that reaches the driver first, and that has to be the cause, not what followed from it.
   */
  private static final int FOLLOW_UP_SECONDS = 15;

  private final RankProgram<T> program;
  private final Placement placement;
  private final StageOptions options;

  RankTask(RankProgram<T> program, Placement placement, StageOptions options) {
    this.program = program;
    this.placement = placement;
    this.options = options;
  }

  @Override
  public Iterator<String> apply(Iterator<T> rows) {
    Rank rank = Rank.join(BarrierTaskContext.get(), placement, options);
    try {
      String result = program.run(rank, CollectionConverters.asJava(rows));
      rank.close();
      return CollectionConverters.asScala(List.of(result).iterator());
    } catch (Throwable cause) {
      throw fail(rank, cause);
    }
  }

  private static RankException fail(Rank rank, Throwable cause) {
    RankException exception = RankException.of(rank, cause);
    try {
      rank.abort(exception.reason());
    } catch (RuntimeException e) {
      exception.addSuppressed(e);
    }
    if (exception.followUp()) {
      rank.awaitKill(FOLLOW_UP_SECONDS);
    }
    return exception;
  }
}
