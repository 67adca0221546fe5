package io.sparktrainer.data;

import static org.apache.spark.sql.functions.array_position;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.element_at;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.split;

import java.util.List;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * A folder that holds one folder of image files per class, as a DataFrame with the columns {@code
 * image} (the encoded file, to be read with an {@link ImageSpec}), {@code label} (the class' number
 * in alphabetical order, {@code int}), {@code class_name} and {@code path}.
 */
public final class ImageFolder {
  private static final String FILES = "*.{png,PNG,jpg,JPG,jpeg,JPEG,gif,GIF,bmp,BMP}";
  private static final String CLASS_NAME = "class_name";

  private ImageFolder() {}

  /**
   * Lists the folder; images are decoded only when they are read.
   *
   * @throws IllegalArgumentException where there is no image in a class folder
   */
  public static Dataset<Row> read(SparkSession spark, String folder) {
    Dataset<Row> files =
        spark
            .read()
            .format("binaryFile")
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", FILES)
            .load(folder)
            .withColumn(CLASS_NAME, element_at(split(col("path"), "/"), -2));
    List<String> classes =
        files.select(CLASS_NAME).distinct().sort(CLASS_NAME).as(Encoders.STRING()).collectAsList();
    if (classes.isEmpty()) {
      throw new IllegalArgumentException(
          "Cannot read images from %s: expected files like %s in one folder per class, got none."
              .formatted(folder, FILES));
    }
    Column number =
        array_position(lit(classes.toArray(new String[0])), col(CLASS_NAME)).minus(1).cast("int");
    return files.select(
        col("content").as("image"), number.as("label"), col(CLASS_NAME), col("path"));
  }
}
