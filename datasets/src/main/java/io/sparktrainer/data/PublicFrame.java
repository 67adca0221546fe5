package io.sparktrainer.data;

import java.util.Iterator;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;

/** The slow way to a DataFrame's rows, by the public API alone. */
final class PublicFrame {
  private PublicFrame() {}

  static SourceRdd<?> open(Dataset<Row> frame, ReadPlan plan) {
    return new SourceRdd<>(frame.toJavaRDD(), new RowTiles(plan));
  }

  private record RowTiles(ReadPlan plan) implements SourceRdd.Tiles<Row> {
    @Override
    public TileSource open(Iterator<Row> rows, SplitRule split, int partition) {
      RowPlace place = new RowPlace(partition);
      PublicEncoder encoder = new PublicEncoder(plan, place);
      WeightCheck weights = WeightCheck.of(plan);
      byte[] flag = new byte[Double.BYTES];
      return tile -> {
        int filled = 0;
        boolean any = false;
        while (filled < tile.capacity && rows.hasNext()) {
          any = true;
          Row row = rows.next();
          int base = Tile.BASE + filled * plan.recordBytes();
          if (encoder.encode(row, tile.records, base)) {
            weights.check(tile.records, base, place);
            ColumnPlan indicator = plan.indicator();
            tile.validation[filled++] =
                indicator == null
                    ? split.isValidation(partition, place.row)
                    : encoder.encode(indicator, row, flag, 0) && Bytes.getLong(flag, 0) != 0;
          }
          place.row++;
        }
        return any ? filled : -1;
      };
    }
  }
}
