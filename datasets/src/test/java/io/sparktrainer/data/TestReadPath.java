package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TestReadPath {
  @TempDir static Path folder;

  private final SparkSession spark = SparkForTests.session();

  private static String tiles(Dataset<Row> frame, ReadPath path) {
    DataSpec spec = DataSpec.builder().features("x", "a").build();
    ReadPlan plan = SchemaResolver.resolve(frame.schema(), spec, (column, type) -> new int[] {1});
    return path.open(frame.select("x", "a"), plan).tiles().getClass().getSimpleName();
  }

  @Test
  void takesColumnBatchesWhereThePlanEndsInAScanThatMakesThem() {
    String path = folder.resolve("stored").toString();
    spark.sql("select 7 as other, array(1D) as a, float(1) as x").write().parquet(path);
    Dataset<Row> stored = spark.read().parquet(path);
    assertThat(tiles(stored, ReadPath.FASTEST)).isEqualTo("BatchTiles");
    assertThat(tiles(stored, ReadPath.INTERNAL_ROWS)).isEqualTo("RowTiles");
    assertThat(tiles(stored.where("other > 6"), ReadPath.FASTEST)).isEqualTo("RowTiles");
    Dataset<Row> computed = stored.withColumn("x", stored.col("x").plus(1));
    assertThat(tiles(computed, ReadPath.FASTEST)).isEqualTo("RowTiles");
  }
}
