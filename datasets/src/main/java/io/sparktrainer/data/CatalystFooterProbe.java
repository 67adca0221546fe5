package io.sparktrainer.data;

import java.io.IOException;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.metadata.BlockMetaData;
import org.apache.parquet.hadoop.metadata.ColumnChunkMetaData;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.spark.ml.linalg.VectorUDT;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.jspecify.annotations.Nullable;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Finds the length of arrays and vectors from a Parquet file's footer instead of a job that reads
 * the first row, and with it a row group. The footer counts rows and elements: where nothing in the
 * first file is null, their ratio is the length of every list, if they all have the same. Any other
 * frame is left to another probe, and so are files of few rows, whose ratio may be whole by chance.
 */
final class CatalystFooterProbe implements LengthProbe {
  private static final int MAX_FILES = 8;
  static final int MIN_ROWS = 10_000;

  private final Dataset<Row> frame;
  private final LengthProbe otherwise;
  private @Nullable List<BlockMetaData> groups;

  CatalystFooterProbe(Dataset<Row> frame, LengthProbe otherwise) {
    this.frame = frame;
    this.otherwise = otherwise;
  }

  @Override
  public int[] dims(String column, DataType type) {
    long length = 0;
    boolean isVector = type instanceof VectorUDT;
    if (isVector
        || (type instanceof ArrayType array && !(array.elementType() instanceof ArrayType))) {
      try {
        length = length(column, isVector);
      } catch (IOException | RuntimeException | LinkageError e) {
        // another Spark version; or a broken file, which the other probe reads, too, and names
        length = 0;
      }
    }
    return length > 0 && length <= Integer.MAX_VALUE
        ? new int[] {(int) length}
        : otherwise.dims(column, type);
  }

  /** The lists' common length, or 0 where the footer does not tell. */
  private long length(String column, boolean isVector) throws IOException {
    LogicalPlan analyzed =
        ((org.apache.spark.sql.classic.Dataset<Row>) frame).queryExecution().analyzed();
    LogicalPlan node = analyzed;
    while (true) {
      if (node instanceof SubqueryAlias alias) {
        node = alias.child();
      } else if (node instanceof Project project
          && CatalystFrame.picksOnly(project.projectList())) {
        node = project.child();
      } else {
        break;
      }
    }
    if (!(node instanceof LogicalRelation scan)
        || !(scan.relation() instanceof HadoopFsRelation relation)
        || relation.fileFormat().getClass() != ParquetFileFormat.class
        || !(relation.location() instanceof PartitioningAwareFileIndex files)) {
      return 0;
    }
    String inFile = nameInScan(analyzed, scan, column);
    if (inFile == null) {
      return 0;
    }
    List<BlockMetaData> known = groups;
    if (known == null) {
      Configuration hadoop =
          relation.sparkSession().sessionState().newHadoopConfWithOptions(relation.options());
      known = firstGroups(CollectionConverters.asJava(files.allFiles()), hadoop);
      groups = known;
    }
    return isVector ? denseLength(known, inFile) : listLength(known, inFile);
  }

  private static @Nullable String nameInScan(LogicalPlan top, LogicalRelation scan, String column) {
    for (Attribute shown : CollectionConverters.asJava(top.output())) {
      if (shown.name().equals(column)) {
        for (Attribute read : CollectionConverters.asJava(scan.output())) {
          if (read.exprId().equals(shown.exprId())) {
            return read.name();
          }
        }
      }
    }
    return null;
  }

  /** The row groups of the first file that has rows; none if the first files have none. */
  private static List<BlockMetaData> firstGroups(List<FileStatus> files, Configuration hadoop)
      throws IOException {
    for (FileStatus file : files.subList(0, Math.min(MAX_FILES, files.size()))) {
      // without options of its own it would read Hadoop's files of defaults once more
      ParquetReadOptions options = HadoopReadOptions.builder(hadoop, file.getPath()).build();
      try (ParquetFileReader reader =
          ParquetFileReader.open(HadoopInputFile.fromStatus(file, hadoop), options)) {
        if (reader.getRecordCount() > 0) {
          return reader.getRowGroups();
        }
      }
    }
    return List.of();
  }

  private static long listLength(List<BlockMetaData> groups, String... path) {
    long rows = 0;
    long elements = 0;
    for (BlockMetaData group : groups) {
      ColumnChunkMetaData chunk = onlyChunk(group, path);
      if (chunk == null || nulls(chunk) != 0) {
        return 0;
      }
      rows += group.getRowCount();
      elements += chunk.getValueCount();
    }
    return rows >= MIN_ROWS && elements % rows == 0 ? elements / rows : 0;
  }

  /** Only sparse vectors have a size of their own. */
  private static long denseLength(List<BlockMetaData> groups, String column) {
    for (BlockMetaData group : groups) {
      ColumnChunkMetaData sizes = onlyChunk(group, column, "size");
      if (sizes == null || nulls(sizes) != group.getRowCount()) {
        return 0;
      }
    }
    return listLength(groups, column, "values");
  }

  /** The column chunk below a path; null where there is none, or more than one. */
  private static @Nullable ColumnChunkMetaData onlyChunk(BlockMetaData group, String... path) {
    ColumnChunkMetaData found = null;
    for (ColumnChunkMetaData chunk : group.getColumns()) {
      List<String> full = List.of(chunk.getPath().toArray());
      if (full.size() >= path.length && full.subList(0, path.length).equals(List.of(path))) {
        if (found != null) {
          return null;
        }
        found = chunk;
      }
    }
    return found;
  }

  private static long nulls(ColumnChunkMetaData chunk) {
    return chunk.getStatistics() != null && chunk.getStatistics().isNumNullsSet()
        ? chunk.getStatistics().getNumNulls()
        : -1;
  }
}
