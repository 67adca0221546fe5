package io.sparktrainer.data;

import java.util.Arrays;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * A text as windows of characters for a language model: the columns {@code tokens} and {@code
 * targets}, both {@code array<int>} of {@code context} character numbers, where the target of each
 * character is the one after it. Windows don't overlap. Named after the text that it is mostly used
 * with (Karpathy 2015, char-rnn), but any text will do.
 */
public final class Shakespeare {
  private static final int ROWS_PER_PARTITION = 4096;

  private Shakespeare() {}

  /** The characters of the text in ascending order; a character's number is its place in it. */
  public static String vocabulary(SparkSession spark, String path) {
    return vocabulary(text(spark, path));
  }

  /**
   * Reads a text, as a whole, on the driver.
   *
   * @param context characters per row
   * @throws IllegalArgumentException where the text is shorter than a window and the character
   *     after it
   */
  public static Dataset<Row> read(SparkSession spark, String path, int context) {
    String text = text(spark, path);
    if (context < 1 || text.length() <= context) {
      throw new IllegalArgumentException(
          "Cannot read %s: expected a context of 1 to %d characters, got %d."
              .formatted(path, text.length() - 1, context));
    }
    String vocabulary = vocabulary(text);
    int windows = (text.length() - 1) / context;
    int partitions = Math.max(1, windows / ROWS_PER_PARTITION);
    MapFunction<Long, Window> window =
        number -> {
          int start = Math.toIntExact(number * context);
          Window made = new Window();
          made.setTokens(numbers(text, start, context, vocabulary));
          made.setTargets(numbers(text, start + 1, context, vocabulary));
          return made;
        };
    return spark
        .range(0, windows, 1, partitions)
        .map(window, Encoders.bean(Window.class))
        .select("tokens", "targets");
  }

  private static int[] numbers(String text, int start, int length, String vocabulary) {
    int[] numbers = new int[length];
    for (int i = 0; i < length; i++) {
      numbers[i] = vocabulary.indexOf(text.charAt(start + i));
    }
    return numbers;
  }

  private static String text(SparkSession spark, String path) {
    return spark.read().option("wholetext", "true").text(path).head().getString(0);
  }

  private static String vocabulary(String text) {
    StringBuilder characters = new StringBuilder();
    Arrays.stream(text.chars().distinct().sorted().toArray())
        .forEach(character -> characters.append((char) character));
    return characters.toString();
  }

  /** One row; a bean because Spark's encoder asks for one. */
  public static final class Window {
    private int[] tokens = new int[0];
    private int[] targets = new int[0];

    /** Character numbers. */
    public int[] getTokens() {
      return tokens;
    }

    /** Sets the character numbers. */
    public void setTokens(int[] tokens) {
      this.tokens = tokens;
    }

    /** The number of the character after each. */
    public int[] getTargets() {
      return targets;
    }

    /** Sets the targets. */
    public void setTargets(int[] targets) {
      this.targets = targets;
    }
  }
}
