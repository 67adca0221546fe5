package io.sparktrainer.data;

import static java.util.Objects.requireNonNull;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * A place in the middle of an epoch, to be saved with a checkpoint and resumed in the same world or
 * in another one. It holds no rows: what was read follows from the numbers in it, as long as the
 * DataFrame gives the same rows in the same partitions.
 *
 * @param epoch the epoch, from 0
 * @param seed the data seed
 * @param partitionRows training rows of every source partition
 * @param stretches what was read of the epoch, one stretch for each world that read at it
 */
public record DataPosition(
    int epoch, long seed, List<Long> partitionRows, List<Stretch> stretches) {
  private static final String VERSION = "1";

  public DataPosition {
    partitionRows = List.copyOf(partitionRows);
    stretches = List.copyOf(stretches);
    if (epoch < 0) {
      throw new IllegalArgumentException(
          "Cannot keep a data position: expected an epoch of 0 or more, got %d.".formatted(epoch));
    }
  }

  /**
   * Steps that one world took.
   *
   * @param worldSize its ranks
   * @param batchRows its rows per batch and rank
   * @param balance its policy
   * @param order its order of the rows
   * @param blockRows of a two-level shuffle, else 0
   * @param windowBlocks of a two-level shuffle, else 0
   * @param steps steps taken
   */
  public record Stretch(
      int worldSize,
      int batchRows,
      Balance balance,
      DataSpec.Order order,
      long blockRows,
      long windowBlocks,
      long steps) {
    public Stretch {
      requireNonNull(balance, "balance");
      requireNonNull(order, "order");
      if (worldSize < 1 || batchRows < 1 || steps < 0) {
        throw new IllegalArgumentException(
            "Cannot keep a data position: expected ranks, batch and steps of at least 1, 1 and 0, got %d, %d and %d."
                .formatted(worldSize, batchRows, steps));
      }
    }

    boolean sameWorld(Stretch other) {
      return withSteps(0).equals(other.withSteps(0));
    }

    Stretch withSteps(long newSteps) {
      return new Stretch(worldSize, batchRows, balance, order, blockRows, windowBlocks, newSteps);
    }

    EpochOrder.Rule rule() {
      return new EpochOrder.Rule(order == DataSpec.Order.SHUFFLED, blockRows, windowBlocks);
    }

    private String toText() {
      return "%d/%d/%s/%s/%d/%d/%d"
          .formatted(worldSize, batchRows, balance, order, blockRows, windowBlocks, steps);
    }

    private static Stretch parse(String text) {
      String[] parts = text.split("/", -1);
      return new Stretch(
          Integer.parseInt(parts[0]),
          Integer.parseInt(parts[1]),
          Balance.valueOf(parts[2]),
          DataSpec.Order.valueOf(parts[3]),
          Long.parseLong(parts[4]),
          Long.parseLong(parts[5]),
          Long.parseLong(parts[6]));
    }
  }

  /** One line of text that {@link #parse} reads, fit for a JSON string. */
  public String toText() {
    return String.join(
        ";",
        VERSION,
        Integer.toString(epoch),
        Long.toString(seed),
        partitionRows.stream().map(String::valueOf).collect(Collectors.joining(",")),
        stretches.stream().map(Stretch::toText).collect(Collectors.joining(",")));
  }

  /**
   * Reads what {@link #toText} wrote.
   *
   * @throws IllegalArgumentException where the text is something else
   */
  public static DataPosition parse(String text) {
    String[] parts = text.split(";", -1);
    try {
      if (parts.length != 5 || !parts[0].equals(VERSION)) {
        throw new IllegalArgumentException("unknown version");
      }
      List<Stretch> stretches = new ArrayList<>();
      for (String stretch : parts[4].isEmpty() ? new String[0] : parts[4].split(",", -1)) {
        stretches.add(Stretch.parse(stretch));
      }
      return new DataPosition(
          Integer.parseInt(parts[1]),
          Long.parseLong(parts[2]),
          Arrays.stream(parts[3].split(",", -1))
              .filter(rows -> !rows.isEmpty())
              .map(Long::valueOf)
              .toList(),
          stretches);
    } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
      throw new IllegalArgumentException(
          "Cannot read a data position: expected text like '%s;epoch;seed;rows;stretches', got '%s'."
              .formatted(VERSION, text.length() > 80 ? text.substring(0, 80) + "..." : text),
          e);
    }
  }

  @Override
  public String toString() {
    return String.format(
        Locale.ROOT,
        "epoch %d after %d steps",
        epoch,
        stretches.stream().mapToLong(Stretch::steps).sum());
  }
}
