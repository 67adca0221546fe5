package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPOutputStream;
import javax.imageio.ImageIO;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TestSources {
  @TempDir Path folder;

  private final SparkSession spark = SparkForTests.session();

  private static List<Double> features(Dataset<Row> frame, InputSpec input) {
    DataSpec spec = DataSpec.builder().input(input).build();
    return Columns.read(frame, spec, ReadPath.FASTEST).get(input.name());
  }

  @ParameterizedTest
  @ValueSource(strings = {"parquet", "json", "orc", "csv"})
  void readsFilesThatSparkWrote(String format) {
    String path = folder.resolve(format).toString();
    spark
        .sql("select 1.5D as x, 2 as y union all select 2.5D, 3")
        .coalesce(1)
        .write()
        .option("header", "true")
        .format(format)
        .save(path);
    Dataset<Row> frame = Sources.read(spark, SourceSpec.ofPath(format, path));
    assertThat(features(frame, InputSpec.of("features", "x", "y")))
        .containsExactly(1.5, 2.0, 2.5, 3.0);
    Dataset<Row> typed =
        Sources.read(spark, SourceSpec.ofPath(format, path).withSchema("x double, y int"));
    assertThat(typed.schema().catalogString()).isEqualTo("struct<x:double,y:int>");
  }

  @Test
  void readsLibsvmTablesAndQueries() throws IOException {
    Path file = Files.writeString(folder.resolve("a.libsvm"), "1 1:0.5 3:2\n0 2:1\n");
    Dataset<Row> frame =
        Sources.read(
            spark,
            SourceSpec.ofPath("libsvm", file.toString()).withOptions(Map.of("numFeatures", "3")));
    assertThat(features(frame, InputSpec.of("features", "features")))
        .containsExactly(0.5, 0.0, 2.0, 0.0, 1.0, 0.0);
    spark.range(3).createOrReplaceTempView("three");
    assertThat(Sources.read(spark, SourceSpec.ofTable("three")).count()).isEqualTo(3);
    assertThat(Sources.read(spark, SourceSpec.ofSql("select * from three where id > 0")).count())
        .isEqualTo(2);
  }

  @Test
  void readsAFolderOfImagesPerClass() throws IOException {
    for (String name : List.of("dog", "cat", "ant")) {
      Path images = Files.createDirectories(folder.resolve("images").resolve(name));
      BufferedImage image = new BufferedImage(2, 2, BufferedImage.TYPE_INT_RGB);
      ImageIO.write(image, "png", images.resolve("1.png").toFile());
      Files.writeString(images.resolve("notes.txt"), "not an image");
    }
    Dataset<Row> frame =
        Sources.read(spark, SourceSpec.ofPath("images", folder.resolve("images").toString()));
    assertThat(frame.sort("label").select("class_name", "label").collectAsList())
        .extracting(Row::toString)
        .containsExactly("[ant,0]", "[cat,1]", "[dog,2]");
    InputSpec image =
        InputSpec.of("image", "image").withImage(new ImageSpec(1, 1, 1, ImageSpec.Range.UNIT));
    assertThat(features(frame, image)).containsExactly(0.0, 0.0, 0.0);
    assertThatThrownBy(
            () ->
                Sources.read(
                    spark,
                    SourceSpec.ofPath(
                        "images", Files.createDirectories(folder.resolve("none")).toString())))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("in one folder per class, got none");
  }

  @Test
  void readsTheAdultCensusAsFound() throws IOException {
    Path file = folder.resolve("adult.csv.gz");
    try (GZIPOutputStream out = new GZIPOutputStream(Files.newOutputStream(file))) {
      out.write(
          """
          age, workclass, fnlwgt, education, education-num, marital-status, occupation, \
          relationship, race, sex, capital-gain, capital-loss, hours-per-week, native-country, income
          39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, \
          Male, 2174, 0, 40, United-States, <=50K
          54, ?, 180211, Some-college, 10, Married-civ-spouse, ?, Husband, White, Male, 0, 0, 60, \
          South, >50K.

          """
              .getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }
    Dataset<Row> frame = Sources.read(spark, SourceSpec.ofPath("adult", file.toString()));
    assertThat(frame.select("age", "`hours-per-week`", "workclass", "label").collectAsList())
        .extracting(Row::toString)
        .containsExactly("[39,40,State-gov,0]", "[54,60,null,1]");
    assertThat(AdultCensus.raw(spark, file.toString()).head().<String>getAs("workclass"))
        .isEqualTo(" State-gov");
    Path other = Files.writeString(folder.resolve("other.csv"), "a,b\n1,2\n");
    assertThatThrownBy(() -> Sources.read(spark, SourceSpec.ofPath("adult", other.toString())))
        .hasMessageContaining("expected a column 'age', got a, b");
  }

  @Test
  void readsATextAsWindows() throws IOException {
    Path file = Files.writeString(folder.resolve("text.txt"), "abcabcbb\na");
    SourceSpec spec =
        SourceSpec.ofPath("shakespeare", file.toString()).withOptions(Map.of("context", "3"));
    assertThat(Shakespeare.vocabulary(spark, file.toString())).isEqualTo("\nabc");
    Dataset<Row> frame = Sources.read(spark, spec);
    InputSpec tokens = InputSpec.of("tokens", "tokens").withType(ElementType.INT64);
    assertThat(features(frame, tokens))
        .containsExactly(1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 2.0, 2.0, 0.0);
    assertThat(features(frame, InputSpec.of("targets", "targets")))
        .containsExactly(2.0, 3.0, 1.0, 2.0, 3.0, 2.0, 2.0, 0.0, 1.0);
    assertThatThrownBy(() -> Sources.read(spark, spec.withOptions(Map.of("context", "10"))))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected a context of 1 to 9 characters, got 10");
  }

  @Test
  void saysWhatASourceLacks() {
    assertThatThrownBy(() -> Sources.read(spark, SourceSpec.ofPath("parqet", "x")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot read source 'parqet': expected one of parquet, csv");
    assertThatThrownBy(
            () -> Sources.read(spark, new SourceSpec("parquet", null, null, null, null, Map.of())))
        .hasMessageContaining("Cannot read source 'parquet': expected 'path', got none");
    assertThatThrownBy(() -> Sources.read(spark, SourceSpec.ofPath("parquet", "/no/such/path")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("/no/such/path");
    assertThatThrownBy(() -> Sources.read(spark, SourceSpec.ofTable("nowhere")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("nowhere");
    assertThatThrownBy(() -> Sources.read(spark, SourceSpec.ofPath("avro", "x.avro")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("spark-avro");
  }
}
