package io.sparktrainer.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.zip.GZIPOutputStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TestMnist {
  private static final int IMAGES = 5;
  private static final int PIXELS = 28 * 28;

  @TempDir Path folder;

  private String images() throws IOException {
    Path file = folder.resolve("images.gz");
    try (DataOutputStream out = open(file)) {
      out.writeInt(0x803);
      out.writeInt(IMAGES);
      out.writeInt(28);
      out.writeInt(28);
      for (int i = 0; i < IMAGES * PIXELS; i++) {
        out.writeByte(i);
      }
    }
    return file.toString();
  }

  private String labels() throws IOException {
    Path file = folder.resolve("labels.gz");
    try (DataOutputStream out = open(file)) {
      out.writeInt(0x801);
      out.writeInt(IMAGES);
      for (int i = 0; i < IMAGES; i++) {
        out.writeByte(9 - i);
      }
    }
    return file.toString();
  }

  private static DataOutputStream open(Path file) throws IOException {
    return new DataOutputStream(new GZIPOutputStream(Files.newOutputStream(file)));
  }

  @Test
  void readsImagesAndLabelsInOrder() throws IOException {
    Dataset<Row> frame = Mnist.read(SparkForTests.session(), images(), labels());
    assertThat(frame.schema().catalogString()).isEqualTo("struct<image:array<float>,label:int>");
    DataSpec spec =
        DataSpec.builder()
            .input(Mnist.imageInput())
            .label("label")
            .order(DataSpec.Order.SEQUENTIAL)
            .build();
    try (Ranks ranks = Ranks.of(frame, spec, 1);
        BatchReader reader = ranks.ranks.get(0).training().epoch(0)) {
      Batch batch = reader.next();
      assertThat(batch.input("image").shape()).containsExactly(IMAGES, 1, 28, 28);
      for (int i = 0; i < IMAGES; i++) {
        assertThat(batch.label().data().getLong(i * 8)).isEqualTo(9 - i);
      }
      for (int i = 0; i < IMAGES * PIXELS; i++) {
        assertThat(batch.input("image").data().getFloat(i * 4)).isEqualTo((i & 0xff) / 255f);
      }
    }
  }

  @Test
  void refusesAFileThatIsSomethingElse() throws IOException {
    String images = images();
    assertThatThrownBy(() -> Mnist.read(SparkForTests.session(), images, images))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected an IDX file that starts with 0x801, got 0x803");
  }
}
