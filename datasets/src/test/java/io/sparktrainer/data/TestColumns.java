package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.awt.Color;
import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.DoubleStream;
import javax.imageio.ImageIO;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.ml.linalg.Vectors;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class TestColumns {
  @TempDir static Path folder;

  private final SparkSession spark = SparkForTests.session();

  /** Parquet, so that the fastest path meets column batches. */
  private Dataset<Row> stored(String name, String sql) {
    String path = folder.resolve(name).toString();
    if (!Files.exists(folder.resolve(name).resolve("_SUCCESS"))) {
      spark.sql(sql).coalesce(1).write().parquet(path);
    }
    return spark.read().parquet(path);
  }

  private static List<Double> values(double... values) {
    return DoubleStream.of(values).boxed().toList();
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void readsEveryScalarType(ReadPath path) {
    Dataset<Row> frame =
        stored(
            "scalars",
            """
            select true as b, tinyint(-3) as i8, smallint(300) as i16, 70000 as i32,
              bigint(5000000000) as i64, float(1.5) as f32, double(2.25) as f64,
              cast(12.75 as decimal(9,2)) as d9, cast(-1.5 as decimal(30,4)) as d30,
              date'1970-01-11' as day, timestamp'1970-01-01 00:00:02.5Z' as ts,
              timestamp_ntz'1970-01-02 00:00:00' as ntz
            """);
    String[] all = frame.columns();
    DataSpec spec =
        DataSpec.builder()
            .features(all)
            .input(InputSpec.of("exact", all).withType(ElementType.FLOAT64))
            .input(
                InputSpec.of("whole", "b", "i8", "i16", "i32", "i64", "day", "ts")
                    .withType(ElementType.INT64))
            .label("i32")
            .weight("f64")
            .build();
    Map<String, List<Double>> read = Columns.read(frame, spec, path);
    List<Double> expected = values(1, -3, 300, 70000, 5e9, 1.5, 2.25, 12.75, -1.5, 10, 2.5, 86400);
    assertThat(read.get("features"))
        .containsExactlyElementsOf(expected.stream().map(v -> (double) v.floatValue()).toList());
    assertThat(read.get("exact")).containsExactlyElementsOf(expected);
    assertThat(read.get("whole")).containsExactly(1.0, -3.0, 300.0, 70000.0, 5e9, 10.0, 2.0);
    assertThat(read.get("label")).containsExactly(70000.0);
    assertThat(read.get("weight")).containsExactly(2.25);
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void readsArraysNestedArraysAndBytes(ReadPath path) {
    Dataset<Row> frame =
        stored(
            "arrays",
            """
            select array(float(1), float(2)) as f, array(3D, 4D) as d, array(5, 6) as i,
              array(array(1, 2, 3), array(4, 5, 6)) as nested, X'00FF' as raw
            union all
            select array(float(7), float(8)), array(9D, 10D), array(11, 12),
              array(array(7, 8, 9), array(10, 11, 12)), X'0180'
            """);
    DataSpec spec =
        DataSpec.builder()
            .features("f", "d")
            .input(InputSpec.of("i", "i").withType(ElementType.INT32))
            .input(InputSpec.of("nested", "nested").withType(ElementType.INT16))
            .input(InputSpec.of("raw", "raw").withType(ElementType.UINT8))
            .build();
    Map<String, List<Double>> read = Columns.read(frame, spec, path);
    assertThat(read.get("features")).isEqualTo(values(1, 2, 3, 4, 7, 8, 9, 10));
    assertThat(read.get("i")).isEqualTo(values(5, 6, 11, 12));
    assertThat(read.get("nested")).isEqualTo(values(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    assertThat(read.get("raw")).isEqualTo(values(0, 255, 1, 128));
    assertThat(Datasets.prepare(frame, spec, 1).schema().inputs().get(2).rowShape())
        .containsExactly(2L, 3L);
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void readsDenseAndSparseVectors(ReadPath path) {
    StructType schema = new StructType().add("v", SQLDataTypes.VectorType());
    List<Row> rows =
        List.of(
            RowFactory.create(Vectors.dense(1, 2, 3)),
            RowFactory.create(Vectors.sparse(3, new int[] {2}, new double[] {5})));
    String file = folder.resolve("vectors").toString();
    spark.createDataFrame(rows, schema).coalesce(1).write().mode("overwrite").parquet(file);
    DataSpec spec = DataSpec.builder().features("v").build();
    assertThat(Columns.read(spark.read().parquet(file), spec, path).get("features"))
        .isEqualTo(values(1, 2, 3, 0, 0, 5));
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void padsOrCutsRaggedArrays(ReadPath path) {
    Dataset<Row> frame =
        stored("ragged", "select array(1, 2) as a union all select array(3, 4, 5, 6) as a");
    InputSpec ragged =
        InputSpec.of("a", "a")
            .withType(ElementType.INT64)
            .withRagged(new InputSpec.Ragged(3, -1, InputSpec.Ragged.Longer.CUT));
    assertThat(Columns.read(frame, DataSpec.builder().input(ragged).build(), path).get("a"))
        .isEqualTo(values(1, 2, -1, 3, 4, 5));
    DataSpec strict = DataSpec.builder().features("a").build();
    assertThatThrownBy(() -> Columns.read(frame, strict, path))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot read column 'a': expected 2 elements, got 4 in row 1");
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void treatsNullsAndNansAsAsked(ReadPath path) {
    Dataset<Row> frame =
        stored(
            "missing",
            """
            select * from values (0, float(1), array(1D, 2D)), (1, null, array(3D, null)),
              (2, float('NaN'), array(5D, 6D)), (3, float(4), null) as t(id, x, a)
            """);
    DataSpec.Builder spec = DataSpec.builder().features("x").input(InputSpec.of("a", "a"));
    assertThatThrownBy(() -> Columns.read(frame, spec.build(), path))
        .hasMessageContaining("Cannot read column 'x': expected a value, got null in row 1");
    DataSpec nansFail = DataSpec.builder().features("x").nulls(MissingValues.fill(9)).build();
    assertThatThrownBy(() -> Columns.read(frame, nansFail, path))
        .hasMessageContaining("Cannot read column 'x': expected a value, got NaN in row 2");
    Map<String, List<Double>> filled =
        Columns.read(
            frame, spec.nulls(MissingValues.fill(9)).nans(MissingValues.fill(8)).build(), path);
    assertThat(filled.get("features")).isEqualTo(values(1, 9, 8, 4));
    assertThat(filled.get("a")).isEqualTo(values(1, 2, 3, 9, 5, 6, 9, 9));
    Map<String, List<Double>> kept =
        Columns.read(
            frame, spec.nulls(MissingValues.drop()).nans(MissingValues.keep()).build(), path);
    assertThat(kept.get("features")).containsExactly(1.0, Double.NaN);
    Map<String, List<Double>> dropped =
        Columns.read(
            frame,
            DataSpec.builder()
                .features("x")
                .label("id")
                .nulls(MissingValues.drop())
                .nans(MissingValues.drop())
                .build(),
            path);
    assertThat(dropped.get("label")).isEqualTo(values(0, 3));
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void refusesNumbersThatDoNotFit(ReadPath path) {
    Dataset<Row> frame = stored("range", "select 2.5D as half, 300 as big");
    DataSpec half =
        DataSpec.builder()
            .features("big")
            .label(InputSpec.of("label", "half").withType(ElementType.INT64))
            .build();
    assertThatThrownBy(() -> Columns.read(frame, half, path))
        .hasMessageContaining(
            "Cannot read column 'half' as INT64: expected a whole number, got 2.5");
    DataSpec big =
        DataSpec.builder().input(InputSpec.of("big", "big").withType(ElementType.UINT8)).build();
    assertThatThrownBy(() -> Columns.read(frame, big, path))
        .hasMessageContaining("Cannot read column 'big' as UINT8: expected 0 to 255, got 300");
  }

  private static byte[] png(int width, int height) throws IOException {
    BufferedImage image = new BufferedImage(width, height, BufferedImage.TYPE_INT_RGB);
    for (int y = 0; y < height; y++) {
      for (int x = 0; x < width; x++) {
        image.setRGB(x, y, new Color(10 * x, 10 * y, 200).getRGB());
      }
    }
    ByteArrayOutputStream file = new ByteArrayOutputStream();
    ImageIO.write(image, "png", file);
    return file.toByteArray();
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void decodesImagesToChannelsFirst(ReadPath path) throws IOException {
    StructType schema = new StructType().add("file", DataTypes.BinaryType);
    Dataset<Row> frame =
        spark.createDataFrame(List.of(RowFactory.create((Object) png(3, 2))), schema);
    InputSpec asIs =
        InputSpec.of("image", "file").withImage(new ImageSpec(2, 3, 3, ImageSpec.Range.BYTE));
    assertThat(Columns.read(frame, DataSpec.builder().input(asIs).build(), path).get("image"))
        .isEqualTo(values(0, 10, 20, 0, 10, 20, 0, 0, 0, 10, 10, 10, 200, 200, 200, 200, 200, 200));
    InputSpec small =
        InputSpec.of("image", "file").withImage(new ImageSpec(1, 1, 3, ImageSpec.Range.UNIT));
    List<Double> mean =
        Columns.read(frame, DataSpec.builder().input(small).build(), path).get("image");
    assertThat(mean.get(0)).isBetween(9.5 / 255, 10.5 / 255);
    assertThat(mean.get(1)).isBetween(4.5 / 255, 5.5 / 255);
    assertThat(mean.get(2)).isBetween(199.9 / 255, 200.1 / 255);
    Dataset<Row> broken =
        spark.createDataFrame(List.of(RowFactory.create((Object) new byte[] {1, 2})), schema);
    assertThatThrownBy(() -> Columns.read(broken, DataSpec.builder().input(small).build(), path))
        .hasMessageContaining(
            "Cannot decode column 'file': expected an image, got 2 bytes in row 0");
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void readsSparksImageStruct(ReadPath path) {
    Dataset<Row> frame =
        spark.sql(
            "select struct('f' as origin, 1 as height, 2 as width, 3 as nChannels, 16 as mode,"
                + " X'010203040506' as data) as image");
    InputSpec image =
        InputSpec.of("image", "image").withImage(new ImageSpec(1, 2, 3, ImageSpec.Range.BYTE));
    assertThat(Columns.read(frame, DataSpec.builder().input(image).build(), path).get("image"))
        .isEqualTo(values(3, 6, 2, 5, 1, 4));
  }

  @Test
  void refusesStringsMapsAndStructsWithARemedy() {
    Dataset<Row> frame =
        spark.sql("select 's' as s, map('k', 1) as m, struct(1 as a) as t, array('x') as l");
    List<String> remedies = new ArrayList<>();
    assertThatThrownBy(
            () ->
                Datasets.prepare(frame, DataSpec.builder().features("s", "m", "t", "l").build(), 1))
        .isInstanceOf(IllegalArgumentException.class)
        .satisfies(e -> remedies.addAll(e.getMessage().lines().toList()));
    assertThat(remedies.get(0)).contains("'s'", "got string", "StringIndexer");
    assertThat(remedies.get(1)).contains("'m'", "got map<string,int>", "Select the keys");
    assertThat(remedies.get(2)).contains("'t'", "got struct<a:int>", "Select its fields");
    assertThat(remedies.get(3)).contains("'l'", "got array<string>", "StringIndexer");
  }

  @ParameterizedTest
  @EnumSource(ReadPath.class)
  void weightsThatAreNoneAreRefusedByRow(ReadPath path) {
    for (String weight : List.of("-0.5", "'Infinity'")) {
      Dataset<Row> frame =
          stored(
              "weight" + weight.length(),
              "select 1 as x, 2D as w union all select 2, double(" + weight + ")");
      DataSpec spec = DataSpec.builder().features("x").weight("w").build();
      assertThatThrownBy(() -> Columns.read(frame, spec, path))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessageContaining(
              "Cannot use column 'w' as weight: expected a finite number of at least 0, got "
                  + weight.replace("'", "")
                  + " in row 1 of partition 0, file file:")
          .hasMessageContaining(folder.resolve("weight" + weight.length()).toString())
          .hasMessageEndingWith(".parquet. Filter such rows, or compute other weights.");
    }
  }
}
