package io.sparktrainer.data;

import static org.apache.spark.sql.functions.array;
import static org.apache.spark.sql.functions.col;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.ml.functions;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;

/**
 * Rows per second from Parquet to floats: 32 features a row as scalar columns, as an array column
 * and as ML Vectors, of widened floats and of full doubles. The ways take turns; medians count.
 * Arguments: rows, cores, rounds, and a file for the table (optional).
 */
final class BenchmarkReading {
  private static final int FEATURES = 32;
  private static final int BATCH = 1024;
  private static final int ROUNDS = 7;
  private static final int WARM_UP_ROUNDS = 12;
  private static final String ROW_LOOP = "Row loop";

  private static final OperatingSystemMXBean CPU =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

  private final SparkSession spark;
  private final long rows;
  private final int ranks;
  private final int rounds;

  private BenchmarkReading(SparkSession spark, long rows, int ranks, int rounds) {
    this.spark = spark;
    this.rows = rows;
    this.ranks = ranks;
    this.rounds = rounds;
  }

  public static void main(String[] arguments) throws IOException {
    long rows = arguments.length > 0 ? Long.parseLong(arguments[0]) : 2_000_000;
    int cores = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 2;
    int rounds = arguments.length > 2 ? Integer.parseInt(arguments[2]) : ROUNDS;
    SparkSession spark =
        SparkSession.builder()
            .master("local[" + cores + "]")
            .config("spark.ui.enabled", "false")
            .appName("reading benchmark")
            .getOrCreate();
    Path folder = Files.createTempDirectory("reading-benchmark");
    try {
      String table = new BenchmarkReading(spark, rows, cores, rounds).run(folder);
      System.out.println(table);
      if (arguments.length > 3) {
        Files.writeString(Path.of(arguments[3]), table);
      }
    } finally {
      spark.stop();
      try (Stream<Path> files = Files.walk(folder)) {
        for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
          Files.delete(file);
        }
      }
    }
  }

  private String run(Path folder) {
    String[] names = IntStream.range(0, FEATURES).mapToObj(i -> "x" + i).toArray(String[]::new);
    Column[] columns =
        Stream.of(names)
            .map(
                name -> org.apache.spark.sql.functions.rand(name.hashCode()).cast("float").as(name))
            .toArray(Column[]::new);
    String scalars = folder.resolve("scalars").toString();
    spark.range(0, rows, 1, 2 * ranks).select(columns).write().parquet(scalars);
    Dataset<Row> frame = spark.read().parquet(scalars);
    Column together = array(Stream.of(names).map(name -> col(name)).toArray(Column[]::new));
    String arrays = folder.resolve("arrays").toString();
    frame.select(together.as("x")).write().parquet(arrays);
    String vectors = folder.resolve("vectors").toString();
    frame
        .select(functions.array_to_vector(together.cast("array<double>")).as("x"))
        .write()
        .parquet(vectors);

    String doubles = folder.resolve("doubles").toString();
    Column full =
        array(
            IntStream.range(0, FEATURES)
                .mapToObj(org.apache.spark.sql.functions::rand)
                .toArray(Column[]::new));
    spark
        .range(0, rows, 1, 2 * ranks)
        .select(functions.array_to_vector(full).as("x"))
        .write()
        .parquet(doubles);

    Map<String, Map<String, Supplier<Rate>>> layouts = new LinkedHashMap<>();
    String sum = Stream.of(names).collect(Collectors.joining("+", "sum(", ")"));
    layouts.put(
        "scalar columns",
        ways(
            spark.read().parquet(scalars),
            () -> spark.read().parquet(scalars).selectExpr(sum),
            rowsOfScalars(),
            internalScalars(),
            names));
    layouts.put(
        "array column",
        ways(
            spark.read().parquet(arrays),
            () -> spark.read().parquet(arrays).selectExpr(elements("x")),
            rowsOfArrays(),
            internalArrays(),
            "x"));
    String asStruct = "x struct<type:tinyint,size:int,indices:array<int>,values:array<double>>";
    for (String path : List.of(doubles, vectors)) {
      layouts.put(
          path.equals(doubles) ? "ML Vectors of doubles" : "ML Vectors of floats",
          ways(
              spark.read().parquet(path),
              () -> spark.read().schema(asStruct).parquet(path).selectExpr(elements("x.values")),
              rowsOfVectors(),
              internalVectors(),
              "x"));
    }
    return RateTable.of(
        "Reading Parquet into floats",
        "%,d rows of %d features, read to FLOAT32, local[%d]; the ways in turn, medians of %d rounds after %d to warm up; million rows per second, then nanoseconds of processor time per row over all threads; in brackets how many times better than the Row loop."
            .formatted(rows, FEATURES, ranks, rounds, WARM_UP_ROUNDS),
        "Spark " + spark.version(),
        ROW_LOOP,
        medians(layouts));
  }

  private static String elements(String array) {
    return IntStream.range(0, FEATURES)
        .mapToObj(i -> array + "[" + i + "]")
        .collect(Collectors.joining("+", "sum(", ")"));
  }

  private Map<String, Supplier<Rate>> ways(
      Dataset<Row> frame,
      Supplier<Dataset<Row>> checksum,
      FlatMapFunction<Iterator<Row>, Long> rowLoop,
      FlatMapFunction<Iterator<InternalRow>, Long> internalLoop,
      String... features) {
    Map<String, Supplier<Rate>> found = new LinkedHashMap<>();
    found.put(
        "Spark's own scan and sum (limit)",
        timed(
            () -> {
              checksum.get().collectAsList();
              return rows;
            }));
    found.put(ROW_LOOP, timed(() -> total(frame.javaRDD().mapPartitions(rowLoop))));
    found.put(
        "internal row loop",
        timed(
            () ->
                total(
                    classic(frame)
                        .queryExecution()
                        .toRdd()
                        .toJavaRDD()
                        .mapPartitions(internalLoop))));
    DataSpec inPlace =
        DataSpec.builder()
            .features(features)
            .batchRows(BATCH)
            .balance(Balance.JOIN)
            .memoryBudgetBytes(4L << 30)
            .build();
    found.put("ours, partitions as they are", timed(() -> read(frame, inPlace, ReadPath.FASTEST)));
    found.put("ours, by internal rows", timed(() -> read(frame, inPlace, ReadPath.INTERNAL_ROWS)));
    found.put("ours, by public rows", timed(() -> read(frame, inPlace, ReadPath.PUBLIC_ROWS)));
    DataSpec dealt = inPlace.toBuilder().balance(Balance.REPARTITION).build();
    found.put(
        "ours, equal shares (one shuffle)", timed(() -> read(frame, dealt, ReadPath.FASTEST)));
    found.put("ours, a later epoch, shuffled", () -> laterEpoch(frame, inPlace));
    return found;
  }

  private long read(Dataset<Row> frame, DataSpec spec, ReadPath path) {
    PreparedData data = Datasets.prepare(frame, null, spec, ranks, path);
    data.materialize();
    RankReader reader = data.reader();
    return total(
        data.rdd()
            .mapPartitionsWithIndex(
                (rank, blocks) -> {
                  try (RankData read = reader.read(rank, blocks)) {
                    return List.of(read.training().rows()).iterator();
                  }
                },
                true));
  }

  /** Rows per second of one rank on one core, from memory to batches. */
  private Rate laterEpoch(Dataset<Row> frame, DataSpec spec) {
    PreparedData data = Datasets.prepare(frame, null, spec, 1, ReadPath.FASTEST);
    RankReader reader = data.reader();
    List<Rate> found =
        data.rdd()
            .mapPartitions(
                blocks -> {
                  try (RankData read = reader.read(0, blocks)) {
                    read.agree(SumOverRanks.SINGLE);
                    long start = System.nanoTime();
                    long cpu = CPU.getProcessCpuTime();
                    long seen = 0;
                    try (BatchReader batches = read.training().epoch(1)) {
                      while (batches.hasNext()) {
                        seen += batches.next().rows();
                      }
                    }
                    return List.of(
                            Rate.of(seen, System.nanoTime() - start, CPU.getProcessCpuTime() - cpu))
                        .iterator();
                  }
                })
            .collect();
    return found.get(0);
  }

  /** Rates by way, by layout: each round takes all, so that all find the JVM equally warm. */
  private Map<String, Map<String, Rate>> medians(Map<String, Map<String, Supplier<Rate>>> layouts) {
    Map<String, Map<String, List<Rate>>> known = new LinkedHashMap<>();
    for (int round = 0; round < WARM_UP_ROUNDS + rounds; round++) {
      boolean counts = round >= WARM_UP_ROUNDS;
      layouts.forEach(
          (layout, ways) ->
              ways.forEach(
                  (way, measure) -> {
                    Rate rate = measure.get();
                    if (counts) {
                      known
                          .computeIfAbsent(layout, name -> new LinkedHashMap<>())
                          .computeIfAbsent(way, name -> new ArrayList<>())
                          .add(rate);
                    }
                  }));
    }
    Map<String, Map<String, Rate>> medians = new LinkedHashMap<>();
    known.forEach(
        (layout, rates) -> {
          Map<String, Rate> ofLayout = new LinkedHashMap<>();
          rates.forEach((way, found) -> ofLayout.put(way, Rate.median(found)));
          medians.put(layout, ofLayout);
        });
    return medians;
  }

  private Supplier<Rate> timed(LongSupplier work) {
    return () -> {
      long start = System.nanoTime();
      long cpu = CPU.getProcessCpuTime();
      long seen = work.getAsLong();
      if (seen != rows) {
        throw new IllegalStateException("expected " + rows + " rows, got " + seen);
      }
      return Rate.of(rows, System.nanoTime() - start, CPU.getProcessCpuTime() - cpu);
    };
  }

  private static long total(JavaRDD<Long> counts) {
    return counts.collect().stream().mapToLong(Long::longValue).sum();
  }

  private static org.apache.spark.sql.classic.Dataset<Row> classic(Dataset<Row> frame) {
    return (org.apache.spark.sql.classic.Dataset<Row>) frame;
  }

  private static <T> FlatMapFunction<Iterator<T>, Long> loop(Filler<T> filler) {
    return rows -> {
      float[] batch = new float[BATCH * FEATURES];
      long seen = 0;
      while (rows.hasNext()) {
        filler.fill(rows.next(), batch, (int) (seen % BATCH) * FEATURES);
        seen++;
      }
      return List.of(seen).iterator();
    };
  }

  private interface Filler<T> extends java.io.Serializable {
    void fill(T row, float[] batch, int at);
  }

  private static FlatMapFunction<Iterator<Row>, Long> rowsOfScalars() {
    return loop(
        (row, batch, at) -> {
          for (int i = 0; i < FEATURES; i++) {
            batch[at + i] = row.getFloat(i);
          }
        });
  }

  private static FlatMapFunction<Iterator<Row>, Long> rowsOfArrays() {
    return loop(
        (row, batch, at) -> {
          List<Float> values = row.getList(0);
          for (int i = 0; i < FEATURES; i++) {
            batch[at + i] = values.get(i);
          }
        });
  }

  private static FlatMapFunction<Iterator<Row>, Long> rowsOfVectors() {
    return loop(
        (row, batch, at) -> {
          Vector vector = row.getAs(0);
          for (int i = 0; i < FEATURES; i++) {
            batch[at + i] = (float) vector.apply(i);
          }
        });
  }

  private static FlatMapFunction<Iterator<InternalRow>, Long> internalScalars() {
    return loop(
        (row, batch, at) -> {
          for (int i = 0; i < FEATURES; i++) {
            batch[at + i] = row.getFloat(i);
          }
        });
  }

  private static FlatMapFunction<Iterator<InternalRow>, Long> internalArrays() {
    return loop(
        (row, batch, at) ->
            System.arraycopy(row.getArray(0).toFloatArray(), 0, batch, at, FEATURES));
  }

  private static FlatMapFunction<Iterator<InternalRow>, Long> internalVectors() {
    return loop(
        (row, batch, at) -> {
          ArrayData values = row.getStruct(0, 4).getArray(3);
          for (int i = 0; i < FEATURES; i++) {
            batch[at + i] = (float) values.getDouble(i);
          }
        });
  }
}
