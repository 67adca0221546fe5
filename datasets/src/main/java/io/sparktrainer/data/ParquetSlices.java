package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.parquet.internal.column.columnindex.OffsetIndex;
import org.apache.parquet.internal.filter2.columnindex.ColumnIndexStore;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;

/**
 * Cuts a row group into slices of rows that are read one after the other: a few pages of every
 * column, which stay in the processor's cache until they are decoded, in place of arrays as large
 * as the row group. Follows the file's index of pages.
 *
 * <p>Slices start with a page of the largest column. Of the other columns, pages that two slices
 * share are read for both, and so is a column's dictionary for every slice; slices are made longer
 * until what is read twice is a tenth of the row group at most.
 */
final class ParquetSlices {
  /** Hadoop setting or option of the reader: compressed bytes of a slice; 0 for no slices. */
  static final String SLICE_BYTES = "spark-trainer.parquet.slice.bytes";

  private static final long DEFAULT_SLICE_BYTES = 4 << 20;
  private static final double READ_TWICE = 0.1;

  private final long rows;
  private final List<Column> columns;

  private record Column(OffsetIndex pages, long dictionaryBytes, long rows) {
    long bytes() {
      return bytesOf(0, rows);
    }

    /** Compressed bytes that are read for a range of rows. */
    long bytesOf(long first, long end) {
      long sum = dictionaryBytes;
      for (int page = 0; page < pages.getPageCount(); page++) {
        boolean isIn =
            pages.getFirstRowIndex(page) < end && pages.getLastRowIndex(page, rows) >= first;
        sum += isIn ? pages.getCompressedPageSize(page) : 0;
      }
      return sum;
    }
  }

  private ParquetSlices(long rows, List<Column> columns) {
    this.rows = rows;
    this.columns = columns;
  }

  static long sliceBytes(Configuration hadoop) {
    long bytes = hadoop.getLongBytes(SLICE_BYTES, DEFAULT_SLICE_BYTES);
    if (bytes < 0) {
      throw new IllegalArgumentException(
          "Cannot read Parquet in slices of '%s' bytes (%s): expected a number such as 4m, or 0 to read row groups as a whole."
              .formatted(hadoop.get(SLICE_BYTES), SLICE_BYTES));
    }
    return bytes;
  }

  /**
   * The slices of a row group, in order; one where the file has no index of its pages.
   *
   * @param leaves columns that are read
   * @param indexes of their pages
   * @param sliceBytes compressed bytes of a slice, over all columns
   */
  static List<RowRanges> of(
      BlockMetaData group, List<ParquetLeaf> leaves, ColumnIndexStore indexes, long sliceBytes) {
    long rows = group.getRowCount();
    List<Column> columns = new ArrayList<>();
    for (ParquetLeaf leaf : leaves) {
      ColumnPath path = ColumnPath.get(leaf.column().getPath());
      for (ColumnChunkMetaData chunk : group.getColumns()) {
        if (chunk.getPath().equals(path) && chunk.getOffsetIndexReference() != null) {
          OffsetIndex pages = indexes.getOffsetIndex(path);
          columns.add(new Column(pages, pages.getOffset(0) - chunk.getStartingPos(), rows));
        }
      }
    }
    return columns.size() == leaves.size() && rows > 0
        ? new ParquetSlices(rows, columns).slices(sliceBytes)
        : List.of(RowRanges.createSingle(rows));
  }

  private List<RowRanges> slices(long atLeast) {
    Column largest = columns.get(0);
    long total = 0;
    for (Column column : columns) {
      total += column.bytes();
      largest = column.bytes() > largest.bytes() ? column : largest;
    }
    for (long sliceBytes = atLeast; sliceBytes < total; sliceBytes *= 2) {
      List<RowRanges> slices = cut(largest, largest.bytes() * sliceBytes / total);
      long read = 0;
      for (RowRanges slice : slices) {
        RowRanges.Range range = slice.getRanges().get(0);
        for (Column column : columns) {
          read += column.bytesOf(range.from, range.to + 1);
        }
      }
      if (read <= total * (1 + READ_TWICE)) {
        return slices;
      }
    }
    return List.of(RowRanges.createSingle(rows));
  }

  /** Ranges of a column's pages that have at most so many bytes together, or are one page. */
  private List<RowRanges> cut(Column column, long bytes) {
    OffsetIndex pages = column.pages;
    List<RowRanges> slices = new ArrayList<>();
    int first = 0;
    long sum = 0;
    for (int page = 0; page < pages.getPageCount(); page++) {
      if (page > first && sum + pages.getCompressedPageSize(page) > bytes) {
        slices.add(RowRanges.create(rows, IntStream.range(first, page).iterator(), pages));
        first = page;
        sum = 0;
      }
      sum += pages.getCompressedPageSize(page);
    }
    slices.add(
        RowRanges.create(rows, IntStream.range(first, pages.getPageCount()).iterator(), pages));
    return slices;
  }
}
