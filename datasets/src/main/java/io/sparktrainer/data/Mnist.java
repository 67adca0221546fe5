package io.sparktrainer.data;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.zip.GZIPInputStream;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * MNIST's gzipped IDX files (LeCun, Cortes, Burges; the format is described at
 * http://yann.lecun.com/exdb/mnist) as a DataFrame with the columns {@code image}: {@code
 * array<float>} of height * width values from 0 (background) to 1, and {@code label}: {@code int}.
 */
public final class Mnist {
  private static final int IMAGES_MAGIC = 0x803;
  private static final int LABELS_MAGIC = 0x801;
  private static final float WHITE = 255;

  private Mnist() {}

  /**
   * Reads a pair of files from any file system that Spark knows. Rows are in the files' order, in
   * one partition.
   *
   * @param imagesPath images, IDX3, gzipped
   * @param labelsPath labels, IDX1, gzipped
   * @throws IllegalArgumentException where a file is not what it should be
   */
  public static Dataset<Row> read(SparkSession spark, String imagesPath, String labelsPath) {
    byte[] labels = labels(content(spark, labelsPath).head().getAs(0), labelsPath);
    FlatMapFunction<Row, Digit> digits =
        file -> new DigitIterator(file.getAs(0), labels, imagesPath);
    return content(spark, imagesPath)
        .flatMap(digits, Encoders.bean(Digit.class))
        .select("image", "label");
  }

  /** The input for a model that takes images: {@code [1, 28, 28]} from the column {@code image}. */
  public static InputSpec imageInput() {
    return InputSpec.of("image", "image").withRowShape(1, 28, 28);
  }

  private static Dataset<Row> content(SparkSession spark, String path) {
    return spark.read().format("binaryFile").load(path).select("content");
  }

  private static byte[] labels(byte[] file, String path) {
    try (DataInputStream in = open(file, path, LABELS_MAGIC)) {
      return in.readNBytes(in.readInt());
    } catch (IOException e) {
      throw new UncheckedIOException("Cannot read the labels in " + path, e);
    }
  }

  private static DataInputStream open(byte[] file, String path, int magic) throws IOException {
    DataInputStream in =
        new DataInputStream(new GZIPInputStream(new ByteArrayInputStream(file), 1 << 16));
    int found = in.readInt();
    if (found != magic) {
      throw new IllegalArgumentException(
          "Cannot read %s: expected an IDX file that starts with 0x%x, got 0x%x."
              .formatted(path, magic, found));
    }
    return in;
  }

  private static final class DigitIterator implements Iterator<Digit> {
    private final DataInputStream in;
    private final byte[] labels;
    private final byte[] pixels;
    private final String path;
    private int next;

    DigitIterator(byte[] file, byte[] labels, String path) throws IOException {
      this.in = open(file, path, IMAGES_MAGIC);
      this.labels = labels;
      this.path = path;
      int images = in.readInt();
      if (images != labels.length) {
        throw new IllegalArgumentException(
            "Cannot read %s: expected %d images, one per label, got %d."
                .formatted(path, labels.length, images));
      }
      this.pixels = new byte[in.readInt() * in.readInt()];
    }

    @Override
    public boolean hasNext() {
      return next < labels.length;
    }

    @Override
    public Digit next() {
      if (!hasNext()) {
        throw new NoSuchElementException("no more digits");
      }
      try {
        in.readFully(pixels);
      } catch (IOException e) {
        throw new UncheckedIOException("Cannot read image %d of %s".formatted(next, path), e);
      }
      float[] image = new float[pixels.length];
      for (int i = 0; i < image.length; i++) {
        image[i] = (pixels[i] & 0xff) / WHITE;
      }
      Digit digit = new Digit();
      digit.setImage(image);
      digit.setLabel(labels[next++]);
      return digit;
    }
  }

  /** One row; a bean because Spark's encoder asks for one. */
  public static final class Digit {
    private float[] image = new float[0];
    private int label;

    /** Pixels, row by row, 0 to 1. */
    public float[] getImage() {
      return image;
    }

    /** Sets the pixels. */
    public void setImage(float[] image) {
      this.image = image;
    }

    /** The digit, 0 to 9. */
    public int getLabel() {
      return label;
    }

    /** Sets the digit. */
    public void setLabel(int label) {
      this.label = label;
    }
  }
}
