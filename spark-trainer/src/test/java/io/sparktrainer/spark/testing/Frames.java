package io.sparktrainer.spark.testing;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** Small DataFrames to train on. */
public final class Frames {
  private Frames() {}

  /**
   * Columns {@code x1} and {@code x2} in [-1, 1), {@code label} 1 where their sum is positive, else
   * 0.
   */
  public static Dataset<Row> halves(SparkSession spark, int rows) {
    Random random = new Random(5);
    List<Row> data = new ArrayList<>();
    for (int i = 0; i < rows; i++) {
      double x1 = 2 * random.nextDouble() - 1;
      double x2 = 2 * random.nextDouble() - 1;
      data.add(RowFactory.create(x1, x2, x1 + x2 > 0 ? 1 : 0));
    }
    StructType schema =
        new StructType()
            .add("x1", DataTypes.DoubleType)
            .add("x2", DataTypes.DoubleType)
            .add("label", DataTypes.IntegerType);
    return spark.createDataFrame(data, schema);
  }
}
