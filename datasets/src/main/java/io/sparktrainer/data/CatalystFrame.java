package io.sparktrainer.data;

import java.util.Iterator;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;
import scala.collection.immutable.Seq;

/**
 * The door to Spark's internals: column batches where the end of the physical plan only picks
 * columns from a node that makes such batches, else internal rows.
 */
final class CatalystFrame {
  private CatalystFrame() {}

  /** The frame's rows as Spark holds them; a row or batch is valid until the next is asked for. */
  static SourceRdd<?> open(Dataset<Row> frame, ReadPlan plan, ReadPath path) {
    if (!(frame instanceof org.apache.spark.sql.classic.Dataset<Row> classic)) {
      throw new IllegalArgumentException(
          ("Cannot read the DataFrame: expected a classic Spark session, got %s. Spark Connect runs"
                  + " no tasks of ours.")
              .formatted(frame.getClass().getName()));
    }
    QueryExecution query = classic.queryExecution();
    if (path == ReadPath.FASTEST) {
      Columns columns = columns(query.executedPlan());
      if (columns != null) {
        JavaRDD<ColumnarBatch> batches = batches(columns).toJavaRDD();
        return new SourceRdd<>(batches, new BatchTiles(plan, columns.ordinals()));
      }
    }
    JavaRDD<InternalRow> rows = query.toRdd().toJavaRDD();
    return new SourceRdd<>(rows, new RowTiles(plan));
  }

  private static boolean isWide(FileSourceScanExec scan) {
    return scan.schema().size()
        > scan.relation().sparkSession().sessionState().conf().wholeStageMaxNumFields();
  }

  /** The scan without the limit beyond which Spark reads tables row by row: 100 columns. */
  private static FileSourceScanExec withoutLimit(FileSourceScanExec scan) {
    HadoopFsRelation relation = scan.relation();
    SparkSession apart = ((SparkSession) relation.sparkSession()).cloneSession();
    apart.conf().set(SQLConf.WHOLESTAGE_MAX_NUM_FIELDS().key(), Integer.MAX_VALUE);
    HadoopFsRelation unlimited =
        new HadoopFsRelation(
            relation.location(),
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            relation.fileFormat(),
            relation.options(),
            apart);
    return new FileSourceScanExec(
        unlimited,
        scan.stream(),
        scan.output(),
        scan.requiredSchema(),
        scan.partitionFilters(),
        scan.optionalBucketSet(),
        scan.optionalNumCoalescedBuckets(),
        scan.dataFilters(),
        scan.tableIdentifier(),
        scan.disableBucketedScan());
  }

  private static RDD<ColumnarBatch> batches(Columns columns) {
    SparkPlan node =
        columns.node() instanceof InputAdapter adapter ? adapter.child() : columns.node();
    if (node instanceof FileSourceScanExec scan) {
      CatalystParquetScan pages = CatalystParquetScan.open(scan, columns.ordinals());
      if (pages != null) {
        return pages;
      }
    }
    return node.executeColumnar();
  }

  @SuppressWarnings("ArrayRecordComponent") // never compared
  private record Columns(SparkPlan node, int[] ordinals) {}

  /** The node that makes column batches, and where in them each selected column is; or null. */
  private static @Nullable Columns columns(SparkPlan top) {
    Seq<Attribute> wanted = top.output();
    SparkPlan node = top;
    while (!node.supportsColumnar()) {
      if (node instanceof WholeStageCodegenExec codegen) {
        node = codegen.child();
      } else if (node instanceof InputAdapter adapter) {
        node = adapter.child();
      } else if (node instanceof ColumnarToRowExec toRow) {
        node = toRow.child();
      } else if (node instanceof ProjectExec project && picksOnly(project.projectList())) {
        node = project.child();
      } else if (node instanceof FileSourceScanExec scan && isWide(scan)) {
        node = withoutLimit(scan);
      } else {
        return null;
      }
    }
    int[] ordinals = new int[wanted.size()];
    for (int i = 0; i < ordinals.length; i++) {
      ordinals[i] = ordinal(node.output(), wanted.apply(i));
      if (ordinals[i] < 0) {
        return null;
      }
    }
    return new Columns(node, ordinals);
  }

  static boolean picksOnly(Seq<NamedExpression> expressions) {
    return expressions.forall(expression -> expression instanceof AttributeReference);
  }

  private static int ordinal(Seq<Attribute> output, Attribute wanted) {
    for (int i = 0; i < output.size(); i++) {
      if (output.apply(i).exprId().equals(wanted.exprId())) {
        return i;
      }
    }
    return -1;
  }

  private record RowTiles(ReadPlan plan) implements SourceRdd.Tiles<InternalRow> {
    @Override
    public TileSource open(Iterator<InternalRow> rows, SplitRule split, int partition) {
      return new CatalystRowSource(rows, plan, split, partition);
    }
  }

  @SuppressWarnings("ArrayRecordComponent") // never compared
  private record BatchTiles(ReadPlan plan, int[] ordinals)
      implements SourceRdd.Tiles<ColumnarBatch> {
    @Override
    public TileSource open(Iterator<ColumnarBatch> batches, SplitRule split, int partition) {
      return new CatalystBatchSource(batches, plan, ordinals, split, partition);
    }
  }
}
