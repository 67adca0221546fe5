package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.Iterator;
import java.util.stream.IntStream;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What rows cost: bytes of heap per row, and direct memory against the budget. */
class TestMemory {
  private static final int FEATURES = 32;
  private static final int BATCH_ROWS = 4096;

  @TempDir Path folder;

  private static long direct(String pool) {
    return ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
        .filter(bean -> bean.getName().equals(pool))
        .mapToLong(BufferPoolMXBean::getMemoryUsed)
        .sum();
  }

  @Test
  void fourTimesTheBudgetStaysWithinItAndReadsEveryRowOnce() throws IOException {
    int rows = 3_000_000;
    long budget = 12L * rows / 4;
    DataSpec spec = FakeFrame.spec(folder).memoryBudgetBytes(budget).batchRows(1024).build();
    long directBefore = direct("direct");
    long mappedBefore = direct("mapped");
    try (Ranks ranks = new FakeFrame(rows / 3, rows / 3, rows / 3).ranks(spec, 1)) {
      RankShare training = ranks.ranks.get(0).training();
      assertThat(training.isSpilled()).isTrue();
      assertThat(direct("direct") - directBefore).isLessThanOrEqualTo(budget);
      assertThat(direct("mapped") - mappedBefore).isGreaterThan(2 * budget);
      BitSet seen = new BitSet(rows);
      try (BatchReader reader = training.epoch(0)) {
        assertThat(direct("direct") - directBefore)
            .isLessThanOrEqualTo(budget + 3 * 1024 * 12 + 4096);
        while (reader.hasNext()) {
          Batch batch = reader.next();
          for (int i = 0; i < batch.rows(); i++) {
            seen.set((int) batch.label().data().getLong(i * Long.BYTES));
          }
        }
      }
      assertThat(seen.cardinality()).isEqualTo(rows);
    }
    assertThat(direct("direct")).isEqualTo(directBefore);
    assertThat(direct("mapped")).isEqualTo(mappedBefore);
    try (var files = Files.list(folder)) {
      assertThat(files).isEmpty();
    }
  }

  @Test
  void saysWhereItCouldNotSpill() {
    Path nowhere = Path.of("/proc/no/such/folder");
    DataSpec spec = FakeFrame.spec(nowhere).memoryBudgetBytes(1000).build();
    assertThatThrownBy(() -> new FakeFrame(1000).ranks(spec, 1))
        .hasMessageContaining("Cannot keep rows beyond the memory budget in " + nowhere)
        .hasMessageContaining("another folder to spill to");
  }

  private static ReadPlan plan(StructType schema, String... features) {
    DataSpec spec = DataSpec.builder().features(features).build();
    return SchemaResolver.resolve(schema, spec, (column, type) -> new int[] {FEATURES});
  }

  /** Heap that a source allocates per row, once compiled. */
  private static double bytesPerRow(TileSource source, int recordBytes) {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    Tile tile = new Tile(recordBytes);
    for (int i = 0; i < 20_000; i++) {
      source.fill(tile);
    }
    long id = Thread.currentThread().getId();
    long rows = 0;
    long before = threads.getThreadAllocatedBytes(id);
    for (int i = 0; i < 5_000; i++) {
      rows += source.fill(tile);
    }
    return (double) (threads.getThreadAllocatedBytes(id) - before) / rows;
  }

  private static TileSource batches(ColumnarBatch batch, ReadPlan plan) {
    int[] ordinals = IntStream.range(0, plan.selected().size()).toArray();
    Iterator<ColumnarBatch> forever = java.util.stream.Stream.generate(() -> batch).iterator();
    return new CatalystBatchSource(forever, plan, ordinals, SplitRule.TRAINING_ONLY, 0);
  }

  private static OnHeapColumnVector doubles(OnHeapColumnVector arrays) {
    for (int i = 0; i < BATCH_ROWS; i++) {
      arrays.putArray(i, i * FEATURES, FEATURES);
    }
    OnHeapColumnVector elements = (OnHeapColumnVector) arrays.arrayData();
    elements.reserve(BATCH_ROWS * FEATURES);
    for (int i = 0; i < BATCH_ROWS * FEATURES; i++) {
      elements.putDouble(i, i);
    }
    return arrays;
  }

  @Test
  void scalarColumnsOfABatchCostNoHeap() {
    StructField[] fields =
        IntStream.range(0, FEATURES)
            .mapToObj(i -> DataTypes.createStructField("x" + i, DataTypes.FloatType, true))
            .toArray(StructField[]::new);
    OnHeapColumnVector[] columns = OnHeapColumnVector.allocateColumns(BATCH_ROWS, fields);
    for (OnHeapColumnVector column : columns) {
      for (int i = 0; i < BATCH_ROWS; i++) {
        column.putFloat(i, i);
      }
    }
    StructType schema = new StructType(fields);
    ReadPlan plan = plan(schema, schema.fieldNames());
    ColumnarBatch batch = new ColumnarBatch(columns, BATCH_ROWS);
    assertThat(bytesPerRow(batches(batch, plan), plan.recordBytes())).isLessThan(0.1);
  }

  @Test
  void arraysAndVectorsOfABatchCostNoHeap() {
    StructType schema = new StructType().add("a", DataTypes.createArrayType(DataTypes.DoubleType));
    OnHeapColumnVector arrays =
        doubles(new OnHeapColumnVector(BATCH_ROWS, schema.fields()[0].dataType()));
    ReadPlan plan = plan(schema, "a");
    ColumnarBatch batch = new ColumnarBatch(new ColumnVector[] {arrays}, BATCH_ROWS);
    assertThat(bytesPerRow(batches(batch, plan), plan.recordBytes())).isLessThan(0.1);

    StructType vectorSchema = new StructType().add("v", SQLDataTypes.VectorType());
    OnHeapColumnVector vectors = new OnHeapColumnVector(BATCH_ROWS, SQLDataTypes.VectorType());
    for (int i = 0; i < BATCH_ROWS; i++) {
      vectors.getChild(0).putByte(i, (byte) 1);
    }
    doubles((OnHeapColumnVector) vectors.getChild(3));
    ReadPlan vectorPlan = plan(vectorSchema, "v");
    ColumnarBatch vectorBatch = new ColumnarBatch(new ColumnVector[] {vectors}, BATCH_ROWS);
    assertThat(bytesPerRow(batches(vectorBatch, vectorPlan), vectorPlan.recordBytes()))
        .isLessThan(0.1);
  }

  @Test
  void scalarsOfInternalRowsCostNoHeap() {
    StructType schema = new StructType();
    for (int i = 0; i < FEATURES; i++) {
      schema = schema.add("x" + i, DataTypes.FloatType);
    }
    UnsafeRow row = UnsafeRow.createFromByteArray(8 + FEATURES * 8, FEATURES);
    for (int i = 0; i < FEATURES; i++) {
      row.setFloat(i, i);
    }
    ReadPlan plan = plan(schema, schema.fieldNames());
    Iterator<InternalRow> forever =
        new Iterator<>() {
          @Override
          public boolean hasNext() {
            return true;
          }

          @Override
          public InternalRow next() {
            return row;
          }
        };
    TileSource source = new CatalystRowSource(forever, plan, SplitRule.TRAINING_ONLY, 0);
    assertThat(bytesPerRow(source, plan.recordBytes())).isLessThan(0.1);
  }

  @Test
  void batchesOfALaterEpochCostNoHeapPerRow() {
    ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
    int rows = 400_000;
    DataSpec spec = FakeFrame.spec(folder).batchRows(2000).build();
    try (Ranks ranks = new FakeFrame(rows).ranks(spec, 1)) {
      double last = Double.MAX_VALUE;
      for (int epoch = 0; epoch < 5; epoch++) {
        try (BatchReader reader = ranks.ranks.get(0).training().epoch(epoch)) {
          reader.next();
          long[] ids = threads.getAllThreadIds();
          long before = sum(threads.getThreadAllocatedBytes(ids));
          long seen = 0;
          while (reader.remainingSteps() > 10) {
            seen += reader.next().rows();
          }
          last = (double) (sum(threads.getThreadAllocatedBytes(ids)) - before) / seen;
        }
      }
      // a batch of 2,000 rows makes a few small objects
      assertThat(last).isLessThan(2);
    }
  }

  private static long sum(long[] values) {
    return java.util.Arrays.stream(values).filter(value -> value > 0).sum();
  }

  @Test
  void anEmptyShareHasNothingToFree() {
    DataSpec spec = FakeFrame.spec(folder).balance(Balance.JOIN).build();
    try (Ranks ranks = new FakeFrame(5, 0).ranks(spec, 2)) {
      assertThat(ranks.ranks.get(1).training().rows()).isZero();
      try (BatchReader reader = ranks.ranks.get(1).training().epoch(0)) {
        assertThat(reader.next().rows()).isZero();
        assertThat(reader.hasNext()).isFalse();
      }
    }
  }
}
