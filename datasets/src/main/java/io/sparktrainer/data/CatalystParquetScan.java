package io.sparktrainer.data;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.InputFileBlockHolder;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.util.TaskCompletionListener;
import org.jspecify.annotations.Nullable;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Column batches of a Parquet scan, straight over the files' pages. The partitions are those of
 * Spark's own scan, and file by file Spark's own reader serves where {@link CatalystParquetFile}
 * does not: another type in the file than in the schema, a column that a file lacks, encryption.
 */
final class CatalystParquetScan extends RDD<ColumnarBatch> {
  private static final long serialVersionUID = 1L;

  private final FileScanRDD scan;
  private final StructType schema;
  private final Broadcast<HadoopSettings> hadoop;

  private CatalystParquetScan(
      FileScanRDD scan, StructType schema, Broadcast<HadoopSettings> hadoop) {
    super(
        scan.context(),
        CollectionConverters.asScala(java.util.List.<Dependency<?>>of()).toSeq(),
        ClassTag$.MODULE$.apply(ColumnarBatch.class));
    this.scan = scan;
    this.schema = schema;
    this.hadoop = hadoop;
  }

  /**
   * Opens a scan for some of its columns; null where Spark's own reader has to read all files.
   *
   * @param ordinals of the columns that are needed, in the scan's output
   */
  static @Nullable CatalystParquetScan open(FileSourceScanExec scan, int... ordinals) {
    HadoopFsRelation relation = scan.relation();
    StructType schema = scan.requiredSchema();
    SQLConf conf = relation.sparkSession().sessionState().conf();
    boolean plain =
        relation.fileFormat().getClass() == ParquetFileFormat.class
            && scan.dataFilters().isEmpty()
            && ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN
            && !conf.ignoreCorruptFiles()
            && !conf.ignoreMissingFiles()
            && !conf.parquetFieldIdReadEnabled()
            && IntStream.of(ordinals).allMatch(ordinal -> ordinal < schema.size())
            && Stream.of(schema.fields()).allMatch(f -> ParquetColumns.canHold(f.dataType()));
    if (!plain) {
      return null;
    }
    // prepares the scan; what it returns is made from the RDD that is taken below
    scan.executeColumnar();
    if (!(scan.inputRDDs().head() instanceof FileScanRDD files)) {
      return null;
    }
    if (files.org$apache$spark$sql$execution$datasources$FileScanRDD$$ignoreCorruptFiles()
        || files.org$apache$spark$sql$execution$datasources$FileScanRDD$$ignoreMissingFiles()) {
      return null;
    }
    Configuration hadoop =
        relation.sparkSession().sessionState().newHadoopConfWithOptions(relation.options());
    Broadcast<HadoopSettings> shared =
        files
            .context()
            .broadcast(HadoopSettings.of(hadoop), ClassTag$.MODULE$.apply(HadoopSettings.class));
    return new CatalystParquetScan(files, schema, shared);
  }

  @Override
  public Partition[] getPartitions() {
    return scan.partitions();
  }

  @Override
  public scala.collection.immutable.Seq<String> getPreferredLocations(Partition partition) {
    return scan.getPreferredLocations(partition);
  }

  @Override
  public scala.collection.Iterator<ColumnarBatch> compute(
      Partition partition, TaskContext context) {
    Batches batches = new Batches((FilePartition) partition, context);
    context.addTaskCompletionListener((TaskCompletionListener) ended -> batches.close());
    return CollectionConverters.asScala(batches);
  }

  /** The batches of one partition, file after file. */
  private final class Batches implements Iterator<ColumnarBatch>, AutoCloseable {
    private final FilePartition partition;
    private final TaskContext context;
    private final PageArrays arrays = new PageArrays();
    private int next;
    private @Nullable CatalystParquetFile own;
    private Iterator<?> current = java.util.Collections.emptyIterator();

    Batches(FilePartition partition, TaskContext context) {
      this.partition = partition;
      this.context = context;
    }

    @Override
    public boolean hasNext() {
      context.killTaskIfInterrupted();
      while (!current.hasNext()) {
        close();
        if (next == partition.files().length) {
          return false;
        }
        open(partition.files()[next++]);
      }
      return true;
    }

    private void open(PartitionedFile file) {
      InputFileBlockHolder.set(file.urlEncodedPath(), file.start(), file.length());
      try {
        own = CatalystParquetFile.open(file, schema, hadoop.value().configuration(), arrays);
      } catch (IOException e) {
        throw new UncheckedIOException(
            "Cannot read file %s: %s".formatted(file.urlEncodedPath(), e.getMessage()), e);
      }
      current =
          own != null
              ? own
              : CollectionConverters.asJava(
                  scan.compute(
                      new FilePartition(partition.index(), new PartitionedFile[] {file}), context));
    }

    @Override
    public ColumnarBatch next() {
      if (!hasNext()) {
        throw new NoSuchElementException("no more batches");
      }
      ColumnarBatch batch = (ColumnarBatch) current.next();
      if (own != null) {
        context.taskMetrics().inputMetrics().incRecordsRead(batch.numRows());
      }
      return batch;
    }

    @Override
    public void close() {
      if (own != null) {
        own.close();
        own = null;
        InputFileBlockHolder.unset();
      }
    }
  }
}
