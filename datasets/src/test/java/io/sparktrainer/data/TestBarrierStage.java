package io.sparktrainer.data;

import static org.apache.spark.sql.functions.col;
import static org.assertj.core.api.Assertions.assertThat;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import scala.Function1;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** Spark refuses some RDD chains in a barrier stage; ours have to pass. */
class TestBarrierStage {
  private final SparkSession spark = SparkForTests.session();

  private static RDD<Long> rowsInABarrierStage(PreparedData data) {
    RankReader reader = data.reader();
    Function1<Iterator<byte[]>, Iterator<Long>> read =
        (Function1<Iterator<byte[]>, Iterator<Long>> & Serializable)
            blocks -> {
              int rank = TaskContext.getPartitionId();
              try (RankData rows = reader.read(rank, CollectionConverters.asJava(blocks))) {
                return CollectionConverters.asScala(
                    List.of(rows.training().rows(), rows.validation().rows()).iterator());
              }
            };
    return data.rdd()
        .rdd()
        .barrier()
        .mapPartitions(read, false, ClassTag$.MODULE$.apply(Long.class));
  }

  @ParameterizedTest
  @EnumSource(Balance.class)
  void readsTrainingAndValidationRowsInOneBarrierStage(Balance balance) {
    Dataset<Row> frame =
        spark.range(0, 100, 1, 5).repartition(4).select(col("id").cast("float").as("x"));
    DataSpec spec = DataSpec.builder().features("x").balance(balance).build();
    PreparedData data = Datasets.prepare(frame, frame.where("x < 10"), spec, 2);
    data.materialize();
    List<Long> rows = rowsInABarrierStage(data).toJavaRDD().collect();
    assertThat(rows).hasSize(4);
    assertThat(rows.get(0) + rows.get(2)).isEqualTo(100);
    assertThat(rows.get(1) + rows.get(3)).isEqualTo(10);
  }
}
