package io.sparktrainer.data;

import static org.apache.spark.sql.functions.expr;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.ml.functions;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Lengths of lists from footers of Parquet files, and what is left to a job. */
class TestFooterProbe {
  private static final int[] NOT_FROM_A_FOOTER = {-1};

  @TempDir static Path folder;
  private static int files;

  private final SparkSession spark = SparkForTests.session();

  private Dataset<Row> rows(String... columns) {
    return rows(CatalystFooterProbe.MIN_ROWS, columns);
  }

  private Dataset<Row> rows(long count, String... columns) {
    return spark.range(0, count, 1, 1).toDF("id").selectExpr(columns);
  }

  private Dataset<Row> written(Dataset<Row> rows) {
    String path = folder.resolve("frame-" + files++).toString();
    rows.write().parquet(path);
    return spark.read().parquet(path);
  }

  private static int[] dims(Dataset<Row> frame, String column) {
    LengthProbe otherwise = (name, type) -> NOT_FROM_A_FOOTER;
    return new CatalystFooterProbe(frame, otherwise)
        .dims(column, frame.schema().apply(column).dataType());
  }

  @Test
  void listsAndDenseVectorsNeedNoJob() {
    Dataset<Row> frame =
        written(
            rows("array(1f, 2f, 3f) as x", "array(1.0d, 2.0d) as v", "id as y")
                .withColumn("v", functions.array_to_vector(expr("v"))));
    DataSpec spec = DataSpec.builder().features("x", "v").label("y").batchRows(4).build();
    AtomicInteger jobs = new AtomicInteger();
    SparkListener counter =
        new SparkListener() {
          @Override
          public void onJobStart(SparkListenerJobStart start) {
            jobs.incrementAndGet();
          }
        };
    spark.sparkContext().addSparkListener(counter);
    try {
      PreparedData data = Datasets.prepare(frame.select("y", "v", "x"), spec, 1);
      // a job that the listener hears of behind all others
      new JavaSparkContext(spark.sparkContext()).parallelize(List.of(1)).count();
      assertThat(data.schema().inputs().get(0).rowShape()).containsExactly(5L);
      while (jobs.get() == 0) {
        Thread.onSpinWait();
      }
      assertThat(jobs).hasValue(1);
    } finally {
      spark.sparkContext().removeSparkListener(counter);
    }
  }

  @Test
  void picksTheColumnWhateverStandsBeside() {
    Dataset<Row> frame =
        written(rows("array(array(id)) as x", "array(id, id) as X2", "array(id) as `x.list`"));
    assertThat(dims(frame, "X2")).containsExactly(2);
    assertThat(dims(frame, "x.list")).containsExactly(1);
    assertThat(dims(frame, "x")).isEqualTo(NOT_FROM_A_FOOTER);
    assertThat(dims(frame.select("X2").as("other"), "X2")).containsExactly(2);
    assertThat(dims(frame.selectExpr("reverse(X2) as X2"), "X2")).isEqualTo(NOT_FROM_A_FOOTER);
    assertThat(dims(frame.where("size(X2) = 2"), "X2")).isEqualTo(NOT_FROM_A_FOOTER);
    assertThat(dims(frame.union(frame), "X2")).isEqualTo(NOT_FROM_A_FOOTER);
  }

  @Test
  void skipsFilesWithoutRows() {
    long twice = 2L * CatalystFooterProbe.MIN_ROWS;
    Dataset<Row> halves = spark.range(0, twice, 1, 2).selectExpr("array(id, id) as x");
    assertThat(dims(written(halves.where("x[0] >= " + twice / 2)), "x")).containsExactly(2);
    assertThat(dims(written(rows("array(id) as x").where("x[0] < 0")), "x"))
        .isEqualTo(NOT_FROM_A_FOOTER);
  }

  @Test
  void leavesListsWithGapsToTheFirstRow() {
    List<String> gaps =
        List.of(
            "if(id = 11, null, array(id, id))",
            "if(id = 11, array(), array(id, id))",
            "array(id, if(id = 11, null, id))",
            "if(id % 2 = 0, null, array(id, id, id))");
    for (String gap : gaps) {
      assertThat(dims(written(rows(gap + " as x")), "x")).as(gap).isEqualTo(NOT_FROM_A_FOOTER);
    }
  }

  @Test
  void leavesSparseVectorsToTheFirstRow() {
    UDF1<Long, Vector> sparse =
        id -> id == 11 ? Vectors.sparse(2, new int[] {1}, new double[] {id}) : Vectors.dense(id, 1);
    spark.udf().register("mixed", sparse, SQLDataTypes.VectorType());
    assertThat(dims(written(rows("mixed(id) as x")), "x")).isEqualTo(NOT_FROM_A_FOOTER);
  }

  /** Lists of 1 and 3 elements hold 2 on average, which no row has. */
  @Test
  void listsOfDifferentLengthsFailAsEver() {
    String mixed = "if(id % 2 = 0, array(id), array(id, id, id)) as x";
    assertThat(dims(written(rows(CatalystFooterProbe.MIN_ROWS - 2, mixed)), "x"))
        .isEqualTo(NOT_FROM_A_FOOTER);
    Dataset<Row> frame = written(rows(mixed));
    assertThat(dims(frame, "x")).containsExactly(2);
    DataSpec spec = DataSpec.builder().features("x").build();
    assertThatThrownBy(() -> Columns.read(frame, spec, ReadPath.FASTEST))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot read column 'x': expected 2 elements, got 1 in row 0");
  }
}
