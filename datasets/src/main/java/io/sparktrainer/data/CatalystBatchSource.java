package io.sparktrainer.data;

import java.util.Iterator;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;

/** Encodes Spark's column batches, column by column within a tile. */
final class CatalystBatchSource implements TileSource {
  private final Iterator<ColumnarBatch> batches;
  private final ReadPlan plan;
  private final SplitRule split;
  private final RowPlace place;
  private final CatalystEncoder encoder;
  private final WeightCheck weights;
  private final CatalystColumn[] columns;
  private final @Nullable CatalystColumn indicator;
  private final byte[] flag = new byte[Double.BYTES];
  private boolean[] dropped = new boolean[0];
  private @Nullable ColumnarBatch batch;
  private int nextRow;
  private long firstRowOfBatch;

  CatalystBatchSource(
      Iterator<ColumnarBatch> batches,
      ReadPlan plan,
      int[] ordinals,
      SplitRule split,
      int partition) {
    this.batches = batches;
    this.plan = plan;
    this.split = split;
    this.place = new RowPlace(partition);
    this.encoder = new CatalystEncoder(plan, place);
    this.weights = WeightCheck.of(plan);
    this.columns =
        plan.columns().stream()
            .map(column -> new CatalystColumn(column.withOrdinal(ordinals[column.ordinal()])))
            .toArray(CatalystColumn[]::new);
    ColumnPlan flagPlan = plan.indicator();
    this.indicator =
        flagPlan == null
            ? null
            : new CatalystColumn(flagPlan.withOrdinal(ordinals[flagPlan.ordinal()]));
  }

  @Override
  public int fill(Tile tile) {
    ColumnarBatch current = batch;
    while (current == null || nextRow >= current.numRows()) {
      if (!batches.hasNext()) {
        return -1;
      }
      firstRowOfBatch += current == null ? 0 : current.numRows();
      current = batches.next();
      batch = current;
      nextRow = 0;
    }
    int rows = Math.min(tile.capacity, current.numRows() - nextRow);
    if (dropped.length < rows) {
      dropped = new boolean[tile.capacity];
    }
    boolean anyDropped = false;
    for (CatalystColumn column : columns) {
      anyDropped |= column.encode(this, current, tile, rows);
    }
    markValidation(current, tile, rows);
    checkWeights(tile, rows);
    nextRow += rows;
    return anyDropped ? compact(tile, rows) : rows;
  }

  int firstRow() {
    return nextRow;
  }

  int recordBytes() {
    return plan.recordBytes();
  }

  ColumnVector vector(ColumnarBatch from, ColumnPlan column) {
    return from.column(column.ordinal());
  }

  /** The place of a row of the tile, for messages. */
  RowPlace place(int rowInTile) {
    place.row = firstRowOfBatch + nextRow + rowInTile;
    return place;
  }

  /** The general way for one value. Returns whether the row stays. */
  boolean encodeValue(ColumnPlan column, ColumnarBatch from, int rowInTile, byte[] to, int base) {
    place(rowInTile);
    return encoder.encode(column, from.getRow(nextRow + rowInTile), to, base);
  }

  void drop(int rowInTile) {
    dropped[rowInTile] = true;
  }

  private void markValidation(ColumnarBatch from, Tile tile, int rows) {
    for (int i = 0; i < rows; i++) {
      tile.validation[i] =
          indicator == null
              ? split.isValidation(place.partition, firstRowOfBatch + nextRow + i)
              : encodeValue(indicator.plan(), from, i, flag, 0) && Bytes.getLong(flag, 0) != 0;
    }
  }

  private void checkWeights(Tile tile, int rows) {
    for (int i = 0; i < rows && weights.isNeeded(); i++) {
      if (!dropped[i]) {
        weights.check(tile.records, Tile.BASE + i * plan.recordBytes(), place(i));
      }
    }
  }

  private int compact(Tile tile, int rows) {
    int kept = 0;
    for (int i = 0; i < rows; i++) {
      if (dropped[i]) {
        dropped[i] = false;
        continue;
      }
      if (kept < i) {
        int size = plan.recordBytes();
        System.arraycopy(
            tile.records, Tile.BASE + i * size, tile.records, Tile.BASE + kept * size, size);
        tile.validation[kept] = tile.validation[i];
      }
      kept++;
    }
    return kept;
  }
}
