package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.internal.filter2.columnindex.RowRanges;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF1;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Reading over Parquet's pages, against the same rows through Spark's own reader. */
class TestParquetScan {
  private static final int ROWS = 700;

  @TempDir static Path folder;
  private static int files;

  private final SparkSession spark = SparkForTests.session();

  private static final DataSpec ALL =
      DataSpec.builder()
          .features("f", "d", "s", "b", "flag")
          .input(InputSpec.of("whole", "i", "l", "few").withType(ElementType.INT64))
          .input(InputSpec.of("lists", "floats", "doubles"))
          .input(InputSpec.of("longs", "longs", "ones").withType(ElementType.INT64))
          .input(InputSpec.of("many", "many"))
          .input(
              InputSpec.of("gaps", "gaps")
                  .withRagged(new InputSpec.Ragged(5, -1, InputSpec.Ragged.Longer.FAIL)))
          .nulls(new MissingValues.Fill(-7))
          .nans(new MissingValues.Fill(-9))
          .batchRows(64)
          .balance(Balance.JOIN)
          .build();

  private Dataset<Row> rows() {
    Dataset<Row> range = spark.range(0, ROWS, 1, 1).toDF("id");
    return range.select(
        column("cast(rand(1) as float)", "f"),
        column("if(id % 7 = 0, null, if(id % 11 = 0, double('NaN'), rand(2)))", "d"),
        column("cast(id % 300 as short)", "s"),
        column("cast(id % 100 - 50 as byte)", "b"),
        column("id % 3 = 0", "flag"),
        column("cast(hash(id) as int)", "i"),
        column("xxhash64(id)", "l"),
        column("if(id % 5 = 0, null, cast(id % 4 as int))", "few"),
        column("transform(sequence(1, 3), k -> cast(hash(id, k) as float))", "floats"),
        column("transform(sequence(1, 2), k -> rand(3) * k)", "doubles"),
        column("array(id, 2 * id)", "longs"),
        column("array(-id)", "ones"),
        column("transform(sequence(1, 70), k -> cast(id + k as float))", "many"),
        column(
            "case when id % 4 = 0 then null when id % 4 = 1 then array()"
                + " else transform(sequence(1, int(1 + id % 5)),"
                + " k -> if(k = 2, null, cast(id + k as float))) end",
            "gaps"));
  }

  private static Column column(String expression, String name) {
    return functions.expr(expression).as(name);
  }

  private String write(Dataset<Row> rows, Map<String, String> options) {
    String path = folder.resolve("frame-" + files++).toString();
    DataFrameWriter<Row> writer = rows.write();
    options.forEach(writer::option);
    writer.parquet(path);
    return path;
  }

  /** Reads files in slices as small as their pages allow. */
  private Dataset<Row> readSliced(String path) {
    return spark.read().option(ParquetSlices.SLICE_BYTES, "1500").parquet(path);
  }

  private static void assertSameAsSpark(Dataset<Row> frame, DataSpec spec) {
    assertThat(Columns.read(frame, spec, ReadPath.FASTEST))
        .isEqualTo(Columns.read(frame, spec, ReadPath.INTERNAL_ROWS));
  }

  private static RDD<?> source(Dataset<Row> frame, DataSpec spec) {
    ReadPlan plan = SchemaResolver.resolve(frame.schema(), spec, (column, type) -> new int[] {2});
    Column[] columns = plan.selected().stream().map(frame::col).toArray(Column[]::new);
    return ReadPath.FASTEST.open(frame.select(columns), plan).rdd().rdd();
  }

  /** Whether all files are read over their pages, rather than by Spark's reader. */
  private static boolean readsPages(Dataset<Row> frame, DataSpec spec) throws IOException {
    ReadPlan plan = SchemaResolver.resolve(frame.schema(), spec, (column, type) -> new int[] {2});
    String[] names = plan.selected().toArray(new String[0]);
    StructType schema = frame.selectExpr(names).schema();
    RDD<?> source = source(frame, spec);
    if (!(source instanceof CatalystParquetScan)) {
      return false;
    }
    for (org.apache.spark.Partition partition : source.partitions()) {
      for (var file : ((FilePartition) partition).files()) {
        try (CatalystParquetFile opened =
            CatalystParquetFile.open(file, schema, new Configuration(), new PageArrays())) {
          if (opened == null) {
            return false;
          }
        }
      }
    }
    return true;
  }

  static Stream<Map<String, String>> layouts() {
    return Stream.of(
        Map.of(),
        Map.of("compression", "uncompressed", "parquet.page.size", "512"),
        Map.of(
            "compression", "zstd",
            "parquet.enable.dictionary", "false",
            "parquet.page.row.count.limit", "133"),
        Map.of("parquet.page.size", "700", "parquet.block.size", "20000"),
        Map.of("parquet.writer.version", "v2", "parquet.page.size", "900"));
  }

  @ParameterizedTest
  @MethodSource("layouts")
  void readsNumbersAndListsInAnyLayoutAsSparkDoes(Map<String, String> options) throws IOException {
    String path = write(rows(), options);
    Dataset<Row> frame = spark.read().parquet(path);
    assertThat(readsPages(frame, ALL)).as("pages of %s", options).isTrue();
    assertSameAsSpark(frame, ALL);
    assertSameAsSpark(readSliced(path), ALL);
    // columns whose pages begin at rows of their own
    DataSpec unaligned =
        DataSpec.builder()
            .features("f")
            .input(InputSpec.of("many", "many"))
            .batchRows(64)
            .balance(Balance.JOIN)
            .build();
    assertSameAsSpark(readSliced(path), unaligned);
  }

  @Test
  void cutsRowGroupsAtPagesAndReadsLittleTwice() throws IOException {
    Dataset<Row> numbers = rows().select("many", "f", "l", "s");
    String path =
        write(
            numbers,
            Map.of("parquet.enable.dictionary", "false", "parquet.page.row.count.limit", "20"));
    assertThat(sliceRows(path, "many", "f", "l", "s"))
        .hasSizeGreaterThan(5)
        .allMatch(rows -> rows % 20 == 0);
    assertThat(sliceRows(path, "f").stream().mapToLong(rows -> rows).sum()).isEqualTo(ROWS);
    Column runs = column("xxhash64(id div 20)", "runs");
    String coded =
        write(
            spark.range(0, ROWS, 1, 1).toDF("id").select(runs),
            Map.of("parquet.page.row.count.limit", "20"));
    assertThat(sliceRows(coded, "runs"))
        .as("a dictionary that every slice would read again")
        .containsExactly((long) ROWS);
    assertSameAsSpark(
        readSliced(path), DataSpec.builder().features("many", "f").batchRows(64).build());
  }

  /** Rows of the slices of about 800 bytes that one row group is cut into. */
  private static List<Long> sliceRows(String path, String... columns) throws IOException {
    try (ParquetFileReader reader =
        ParquetFileReader.open(
            HadoopInputFile.fromPath(
                new org.apache.hadoop.fs.Path(dataFile(path).toString()), new Configuration()))) {
      List<ParquetLeaf> leaves =
          reader.getFileMetaData().getSchema().getColumns().stream()
              .filter(column -> List.of(columns).contains(column.getPath()[0]))
              .map(column -> ParquetLeaf.numbers(column, new PageArrays()))
              .toList();
      reader.setRequestedSchema(leaves.stream().map(ParquetLeaf::column).toList());
      return ParquetSlices.of(
              reader.getRowGroups().get(0), leaves, reader.getColumnIndexStore(0), 800)
          .stream()
          .map(RowRanges::rowCount)
          .toList();
    }
  }

  private static Path dataFile(String path) throws IOException {
    try (Stream<Path> listed = Files.list(Path.of(path))) {
      return listed.filter(f -> f.toString().endsWith(".parquet")).findFirst().orElseThrow();
    }
  }

  @Test
  void refusesANegativeSlice() {
    String path = write(rows().select("f", "l"), Map.of());
    Dataset<Row> frame = spark.read().option(ParquetSlices.SLICE_BYTES, "-1").parquet(path);
    DataSpec spec = DataSpec.builder().features("f").label("l").batchRows(64).build();
    assertThatThrownBy(() -> Ranks.of(frame, spec, 1))
        .hasStackTraceContaining("slices of '-1' bytes (spark-trainer.parquet.slice.bytes)");
  }

  @Test
  @SuppressWarnings("ByteBufferBackingArray") // which array it is, not its content
  void keepsAnArrayThatWasReadIntoUntilItIsReleased() {
    PageArrays arrays = new PageArrays();
    ByteBuffer readInto = arrays.allocate(1000);
    byte[] array = readInto.array();
    // a page that is not compressed is a part of what was read
    arrays.giveBack(readInto.slice(100, 200));
    byte[] page = arrays.take(1000);
    assertThat(page).isNotSameAs(array);
    arrays.release(readInto);
    assertThat(arrays.take(900)).isSameAs(array);
    arrays.giveBack(ByteBuffer.wrap(page, 0, 10));
    arrays.giveBack(ByteBuffer.wrap(page, 0, 10));
    assertThat(arrays.take(1000)).isSameAs(page);
    assertThat(arrays.take(1000)).isNotSameAs(page);
  }

  @Test
  void readsDenseAndSparseVectorsAndNoneAsSparkDoes() throws IOException {
    UDF1<Long, Vector> vector = TestParquetScan::vector;
    spark.udf().register("vector", vector, SQLDataTypes.VectorType());
    Dataset<Row> vectors =
        spark
            .range(0, ROWS, 1, 1)
            .toDF("id")
            .select(
                column("cast(id % 3 as float)", "y"),
                column("if(id % 6 = 5, null, vector(id))", "v"));
    String path = write(vectors, Map.of("parquet.page.size", "600"));
    Dataset<Row> frame = spark.read().parquet(path);
    DataSpec spec =
        DataSpec.builder()
            .features("v")
            .label("y")
            .nulls(new MissingValues.Fill(-7))
            .batchRows(64)
            .build();
    assertThat(readsPages(frame, spec)).isTrue();
    assertSameAsSpark(frame, spec);
    assertSameAsSpark(readSliced(path), spec);
  }

  @Test
  void readsColumnsOfNullsAndInfinitiesBesideEachOther() throws IOException {
    UDF1<Long, Vector> infinite =
        id -> Vectors.dense(Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, id);
    spark.udf().register("infinite", infinite, SQLDataTypes.VectorType());
    Dataset<Row> extremes =
        spark
            .range(0, ROWS, 1, 1)
            .toDF("id")
            .select(
                column("cast(null as int)", "noNumber"),
                column("cast(null as array<float>)", "noList"),
                column("if(id < 900, null, id)", "late"),
                column("if(id % 2 = 0, 1, -1) * double('Infinity')", "infinity"),
                column("infinite(id)", "v"));
    String path = write(extremes, Map.of("parquet.page.row.count.limit", "100"));
    DataSpec spec =
        DataSpec.builder()
            .features("noNumber", "late", "infinity", "v")
            .input(
                InputSpec.of("noList", "noList")
                    .withRagged(new InputSpec.Ragged(2, -1, InputSpec.Ragged.Longer.FAIL)))
            .nulls(new MissingValues.Fill(-7))
            .batchRows(64)
            .build();
    Dataset<Row> frame = spark.read().parquet(path);
    assertThat(readsPages(frame, spec)).isTrue();
    assertSameAsSpark(frame, spec);
    assertSameAsSpark(readSliced(path), spec);
  }

  private static Vector vector(long id) {
    return id % 2 == 0
        ? Vectors.dense(id, 0.5, -id)
        : Vectors.sparse(3, new int[] {1}, new double[] {id});
  }

  @Test
  void readsEveryRowOnceWhereSplitsCutFiles() throws IOException {
    String path = write(rows(), Map.of("parquet.block.size", "10000"));
    spark.conf().set("spark.sql.files.maxPartitionBytes", "10000");
    try {
      Dataset<Row> frame = spark.read().parquet(path);
      assertThat(source(frame, ALL).getNumPartitions()).isGreaterThan(3);
      assertThat(readsPages(frame, ALL)).isTrue();
      assertSameAsSpark(frame, ALL);
      assertSameAsSpark(readSliced(path), ALL);
    } finally {
      spark.conf().unset("spark.sql.files.maxPartitionBytes");
    }
  }

  @Test
  void leavesFilesToSparkThatHoldAnotherTypeOrLackAColumn() throws IOException {
    String narrow = write(rows().limit(50).selectExpr("float(f) as x", "int(s) as y"), Map.of());
    String wide = write(rows().limit(50).selectExpr("double(f) as x", "bigint(s) as y"), Map.of());
    String lacking = write(rows().limit(50).selectExpr("double(f) as x"), Map.of());
    Dataset<Row> frame = spark.read().schema("x double, y bigint").parquet(narrow, wide, lacking);
    DataSpec spec =
        DataSpec.builder()
            .features("x")
            .label("y")
            .nulls(new MissingValues.Fill(-7))
            .batchRows(64)
            .build();
    assertThat(source(frame, spec)).isInstanceOf(CatalystParquetScan.class);
    assertThat(readsPages(frame, spec)).isFalse();
    assertThat(readsPages(spark.read().parquet(wide), spec)).isTrue();
    assertSameAsSpark(frame, spec);
  }

  @Test
  void readsTablesOfMoreColumnsThanSparkReadsInBatches() throws IOException {
    String[] floats =
        IntStream.range(0, 101)
            .mapToObj("cast(id * %1$d as float) as x%1$d"::formatted)
            .toArray(String[]::new);
    String[] doubles =
        Stream.of(floats).map(c -> c.replace("float", "double")).toArray(String[]::new);
    String narrow = write(spark.range(40).selectExpr(floats), Map.of());
    String wide = write(spark.range(40).selectExpr(doubles), Map.of());
    Dataset<Row> frame = spark.read().parquet(narrow);
    DataSpec spec =
        DataSpec.builder().features(frame.columns()).batchRows(64).balance(Balance.JOIN).build();
    assertThat(readsPages(frame, spec)).isTrue();
    assertSameAsSpark(frame, spec);
    assertSameAsSpark(
        spark.read().schema(spark.read().parquet(wide).schema()).parquet(narrow, wide), spec);
    Dataset<Row> filtered = frame.where("x0 > 0");
    assertThat(source(filtered, spec)).isNotInstanceOf(CatalystParquetScan.class);
  }

  @Test
  void leavesScansToSparkThatNeedMoreThanPages() {
    String path = write(rows().selectExpr("f", "s", "cast(d as decimal(9, 3)) as dec"), Map.of());
    Dataset<Row> frame = spark.read().parquet(path);
    DataSpec floats = DataSpec.builder().features("f").label("s").batchRows(64).build();
    assertThat(source(frame, floats)).isInstanceOf(CatalystParquetScan.class);
    DataSpec decimals =
        DataSpec.builder()
            .features("f", "dec")
            .nulls(new MissingValues.Fill(-7))
            .batchRows(64)
            .build();
    assertThat(source(frame, decimals)).isNotInstanceOf(CatalystParquetScan.class);
    Dataset<Row> filtered = frame.where("s > 20");
    assertThat(source(filtered, floats)).isNotInstanceOf(CatalystParquetScan.class);
    assertSameAsSpark(filtered, floats);
    Dataset<Row> lenient = spark.read().option("ignoreCorruptFiles", "true").parquet(path);
    assertThat(source(lenient, floats)).isNotInstanceOf(CatalystParquetScan.class);
  }

  @Test
  void readsPartitionColumnsBesideTheFiles() {
    String path = folder.resolve("partitioned").toString();
    rows()
        .limit(100)
        .selectExpr("f", "int(s % 3) as part")
        .write()
        .partitionBy("part")
        .parquet(path);
    Dataset<Row> frame = spark.read().parquet(path);
    DataSpec both = DataSpec.builder().features("f").label("part").batchRows(64).build();
    assertThat(source(frame, both)).isNotInstanceOf(CatalystParquetScan.class);
    assertSameAsSpark(frame, both);
    DataSpec alone = DataSpec.builder().features("f").batchRows(64).build();
    Dataset<Row> pruned = frame.where("part = 1");
    assertThat(source(pruned, alone)).isInstanceOf(CatalystParquetScan.class);
    assertSameAsSpark(pruned, alone);
  }

  @Test
  void namesFileRowAndColumnOfABadValue() {
    String path = write(rows(), Map.of("parquet.page.size", "700"));
    DataSpec strict = DataSpec.builder().features("f", "d").batchRows(64).build();
    Dataset<Row> frame = spark.read().parquet(path).where("true");
    assertThatThrownBy(() -> Ranks.of(frame, strict, 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("column 'd'")
        .hasMessageContaining("row 0 of partition 0")
        .hasMessageContaining(path);
  }

  @Test
  void namesTheFileWhosePagesAreBroken() throws IOException {
    String path = write(rows().select("f", "l"), Map.of());
    byte[] bytes = Files.readAllBytes(dataFile(path));
    for (int broken = 4; broken < bytes.length - 200; broken += bytes.length / 7) {
      byte[] copy = bytes.clone();
      java.util.Arrays.fill(copy, broken, broken + 200, (byte) 0x5b);
      Path folderOfOne = Files.createDirectories(folder.resolve("broken-" + broken));
      Files.write(folderOfOne.resolve("part.parquet"), copy);
      Dataset<Row> frame = spark.read().schema("f float, l bigint").parquet(folderOfOne.toString());
      DataSpec spec = DataSpec.builder().features("f").label("l").batchRows(64).build();
      assertThat(source(frame, spec)).isInstanceOf(CatalystParquetScan.class);
      Throwable failure = catchThrowable(() -> Ranks.of(frame, spec, 1));
      // bytes that only hold other values cannot be told; those of a page's header can
      if (broken == 4 || failure != null) {
        assertThat(failure)
            .as("broken at %d of %d", broken, bytes.length)
            .hasStackTraceContaining("part.parquet");
      }
    }
  }
}
