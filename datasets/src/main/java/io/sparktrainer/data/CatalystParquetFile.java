package io.sparktrainer.data;

import java.io.IOException;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.hadoop.CodecFactory;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.metadata.ColumnPath;
import org.apache.parquet.hadoop.metadata.FileMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;

/**
 * The row groups of one file whose middle lies in a split, as batches over the file's own pages. A
 * batch goes as far as the shortest page of all its columns, and is valid until the next one.
 */
final class CatalystParquetFile implements Iterator<ColumnarBatch>, AutoCloseable {
  private final ParquetFileReader reader;
  private final ParquetColumns columns;
  private final ColumnarBatch batch;
  private final String path;
  private final long sliceBytes;
  private @Nullable PageReadStore slice;
  private int groups;
  private Iterator<RowRanges> slices = Collections.emptyIterator();
  private long rowsLeft;
  private int rowsShown;

  private CatalystParquetFile(
      ParquetFileReader reader, ParquetColumns columns, String path, long sliceBytes) {
    this.reader = reader;
    this.sliceBytes = sliceBytes;
    this.columns = columns;
    this.path = path;
    this.batch = new ColumnarBatch(columns.vectors().toArray(new ColumnVector[0]));
  }

  /**
   * Opens a file; null where Spark's own reader has to read it.
   *
   * @param arrays for pages, of this task
   */
  static @Nullable CatalystParquetFile open(
      PartitionedFile file, StructType schema, Configuration hadoop, PageArrays arrays)
      throws IOException {
    FileStatus status =
        new FileStatus(file.fileSize(), false, 0, 0, file.modificationTime(), file.toPath());
    ParquetReadOptions.Builder options =
        HadoopReadOptions.builder(hadoop, file.toPath())
            .withRange(file.start(), file.start() + file.length())
            .withCodecFactory(new ParquetCodecs(new CodecFactory(hadoop, 0), arrays));
    boolean isLocal = "file".equals(file.toPath().toUri().getScheme());
    if (isLocal) {
      // from a local disk vectored reads gain nothing, take threads and a second buffer of the same
      // size, and do not give their arrays back
      options = options.withUseHadoopVectoredIo(false).withAllocator(arrays);
    }
    ParquetFileReader reader =
        ParquetFileReader.open(HadoopInputFile.fromStatus(status, hadoop), options.build());
    try {
      FileMetaData meta = reader.getFileMetaData();
      ParquetColumns columns =
          meta.getEncryptionType() == FileMetaData.EncryptionType.UNENCRYPTED
              ? ParquetColumns.of(meta.getSchema(), schema, arrays)
              : null;
      if (columns == null || !startPagesWithRows(reader, columns)) {
        reader.close();
        return null;
      }
      reader.setRequestedSchema(columns.leaves().stream().map(ParquetLeaf::column).toList());
      // each slice asks the file system for some bytes of every column, which takes its time where
      // there is a network in between
      long sliceBytes = isLocal ? ParquetSlices.sliceBytes(hadoop) : 0;
      return new CatalystParquetFile(reader, columns, file.urlEncodedPath(), sliceBytes);
    } catch (Throwable e) {
      reader.close();
      throw e;
    }
  }

  /** Pages of lists may split a row, except where the file has an index of its pages. */
  private static boolean startPagesWithRows(ParquetFileReader reader, ParquetColumns columns) {
    Set<ColumnPath> lists = new HashSet<>();
    for (ParquetLeaf leaf : columns.leaves()) {
      if (leaf.column().getMaxRepetitionLevel() > 0) {
        lists.add(ColumnPath.get(leaf.column().getPath()));
      }
    }
    for (BlockMetaData group : reader.getRowGroups()) {
      for (ColumnChunkMetaData chunk : group.getColumns()) {
        if (lists.contains(chunk.getPath()) && chunk.getOffsetIndexReference() == null) {
          return false;
        }
      }
    }
    return true;
  }

  @Override
  public boolean hasNext() {
    rowsLeft -= rowsShown;
    columns.leaves().forEach(leaf -> leaf.skip(rowsShown));
    rowsShown = 0;
    try {
      while (rowsLeft == 0) {
        closeSlice();
        if (!openSlice()) {
          return false;
        }
      }
      return true;
    } catch (IOException | RuntimeException e) {
      throw failure("a row group", e);
    }
  }

  /** Reads the next slice of the row group, or the first one of the next. */
  private boolean openSlice() throws IOException {
    while (!slices.hasNext()) {
      if (groups == reader.getRowGroups().size()) {
        return false;
      }
      BlockMetaData group = reader.getRowGroups().get(groups);
      slices =
          (sliceBytes > 0
                  ? ParquetSlices.of(
                      group, columns.leaves(), reader.getColumnIndexStore(groups), sliceBytes)
                  : List.of(RowRanges.createSingle(group.getRowCount())))
              .iterator();
      groups++;
    }
    RowRanges rows = slices.next();
    rowsLeft = rows.rowCount();
    if (rowsLeft > 0) {
      slice = reader.readFilteredRowGroup(groups - 1, rows);
      for (ParquetLeaf leaf : columns.leaves()) {
        leaf.open(slice, rows.getRanges().get(0).from);
      }
    }
    return true;
  }

  @Override
  public ColumnarBatch next() {
    if (!hasNext()) {
      throw new NoSuchElementException("no more batches");
    }
    int rows = (int) Math.min(rowsLeft, Integer.MAX_VALUE);
    for (ParquetLeaf leaf : columns.leaves()) {
      try {
        rows = Math.min(rows, leaf.remaining());
      } catch (IOException | RuntimeException e) {
        throw failure("column " + String.join(".", leaf.column().getPath()), e);
      }
    }
    columns.vectors().forEach(CatalystParquetVector::show);
    rowsShown = rows;
    batch.setNumRows(rows);
    return batch;
  }

  private IllegalStateException failure(String what, Exception cause) {
    return new IllegalStateException(
        "Cannot read %s of file %s: %s. Write the file again, or leave it out."
            .formatted(what, path, cause.getMessage()),
        cause);
  }

  private void closeSlice() {
    if (slice != null) {
      slice.close();
      slice = null;
    }
  }

  @Override
  public void close() {
    columns.leaves().forEach(ParquetLeaf::close);
    closeSlice();
    try {
      reader.close();
    } catch (IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }
}
