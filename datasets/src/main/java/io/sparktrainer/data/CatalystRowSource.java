package io.sparktrainer.data;

import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;

/** Encodes Spark's internal rows. */
final class CatalystRowSource implements TileSource {
  private final Iterator<InternalRow> rows;
  private final ReadPlan plan;
  private final SplitRule split;
  private final RowPlace place;
  private final CatalystEncoder encoder;
  private final WeightCheck weights;
  private final byte[] flag = new byte[Double.BYTES];

  CatalystRowSource(Iterator<InternalRow> rows, ReadPlan plan, SplitRule split, int partition) {
    this.rows = rows;
    this.plan = plan;
    this.split = split;
    this.place = new RowPlace(partition);
    this.encoder = new CatalystEncoder(plan, place);
    this.weights = WeightCheck.of(plan);
  }

  @Override
  public int fill(Tile tile) {
    int filled = 0;
    boolean any = false;
    while (filled < tile.capacity && rows.hasNext()) {
      any = true;
      InternalRow row = rows.next();
      int base = Tile.BASE + filled * plan.recordBytes();
      if (encoder.encode(row, tile.records, base)) {
        weights.check(tile.records, base, place);
        tile.validation[filled++] = isValidation(row);
      }
      place.row++;
    }
    return any ? filled : -1;
  }

  private boolean isValidation(InternalRow row) {
    ColumnPlan indicator = plan.indicator();
    if (indicator == null) {
      return split.isValidation(place.partition, place.row);
    }
    return encoder.encode(indicator, row, flag, 0) && Bytes.getLong(flag, 0) != 0;
  }
}
