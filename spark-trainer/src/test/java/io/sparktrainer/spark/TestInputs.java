package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.spark.config.TrainerConfig;
import io.sparktrainer.spark.testing.SparkTest;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import javax.imageio.ImageIO;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Several inputs, weights, labels of every form and a second DataFrame, through to the model. */
@SparkTest(master = "local[2]")
class TestInputs {
  @TempDir Path folder;
  private Dataset<Row> people;

  /** The class depends on the category alone; numbers are noise of a large scale. */
  @BeforeEach
  void open(SparkSession session) {
    people =
        session.sql(
            """
            SELECT 1000 * rand(1) AS age, float(rand(2)) AS hours, int(id % 3) AS job,
              int(id % 5) AS city, int(id % 3 = 1) AS label, double(id % 4) AS w,
              array(float(id % 3), float(id % 2)) AS pair, id >= 160 AS test
            FROM range(0, 200, 1, 3)
            """);
  }

  private TrainingResult fit(String model, String rest, String... overrides) {
    return new SparkTrainer(config(model, rest, overrides)).fit(people);
  }

  private TrainerConfig config(String model, String rest, String... overrides) {
    return TrainerConfig.parse(
        """
        data:
          inputs: {numbers: [age, hours], categories: [job, city]}
          validation: {column: test}
          label: label
        model: %s
        optimizer: {type: adam, lr: 0.05}
        training: {epochs: 4, batch_size: 10, seed: 3}
        metrics: {console: false, jsonl: false}
        output: %s
        %s
        """
            .formatted(model, folder, rest),
        overrides);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "{strategy: dp, replicas: 2}",
        "{strategy: ddp, workers: 2}",
        "{strategy: fsdp, workers: 2}"
      })
  void theTabularModelTrainsUnderEveryStrategy(String strategy) {
    TrainingResult result =
        fit("{type: tabular, hidden: [8]}", "device: {parallel: " + strategy + "}");

    // 3 and 5 categories have embeddings of widths 2 and 3
    assertThat(result.parameters()).isEqualTo(2 * 2 + 3 * 2 + 5 * 3 + (7 + 1) * 8 + (8 + 1) * 2);
    assertThat(result.lastEpoch().evalAccuracy()).isEqualTo(1);
  }

  @Test
  void theConfigurationNamesAvroFiles(SparkSession session) {
    String path = folder.resolve("people").toString();
    people.write().format("avro").save(path);
    TrainerConfig config =
        config(
            "{type: tabular, hidden: [8]}",
            "device: {type: cpu}",
            "data.source=avro",
            "data.path=" + path,
            "training.epochs=1");

    assertThat(new SparkTrainer(config).fit(session).lastEpoch().rows()).isEqualTo(160);
  }

  @Test
  void oneInputModelsSayWhatTakesMore() {
    assertThatThrownBy(() -> fit("{type: mlp}", "device: {type: cpu}"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot make the model: expected one input, got [numbers, categories]. Use {type: tabular}, {type: torchscript} or {type: class} for more.");
  }

  @Test
  void tooFewCategoriesInTheConfigurationAreNamedBeforeTheTraining() {
    assertThatThrownBy(() -> fit("{type: tabular, embeddings: {city: 4}}", "device: {type: cpu}"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot use column 'city' as categories: expected numbers from 0 to 3, as model.embeddings says, got 4. Raise it to at least 5, or use embeddings: auto.");
    people = people.withColumn("city", people.col("city").minus(2));
    assertThatThrownBy(() -> fit("{type: tabular}", "device: {type: cpu}"))
        .hasMessageContaining(
            "Cannot use column 'city' as categories: expected numbers 0, 1, 2, ..., got values from -2 to 2. Number the categories, for example with StringIndexer.");
  }

  @Test
  void textsAsCategoriesSayWhatNumbersThem() {
    people = people.withColumn("job", people.col("job").cast("string"));

    assertThatThrownBy(() -> fit("{type: tabular}", "device: {type: cpu}"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("'job' (input 'categories')")
        .hasMessageContaining("StringIndexer");
  }

  /** A row of weight 2 counts as two rows, one of weight 0 not at all. */
  @Test
  void weightsGiveWhatRepeatedRowsGive() {
    String model = "{type: mlp, hidden: [4]}";
    String[] overrides = {
      "data.inputs=null",
      "data.features=[job, city, hours]",
      "data.shuffle=false",
      // one step an epoch
      "training.batch_size=1000",
      "training.epochs=3"
    };
    String[] weighted = java.util.Arrays.copyOf(overrides, overrides.length + 1);
    weighted[overrides.length] = "data.weight=w";
    TrainingResult result = fit(model, "device: {parallel: {strategy: ddp, workers: 2}}", weighted);
    people = people.selectExpr("*", "explode(array_repeat(0, int(w)))").drop("col");
    TrainingResult expected = fit(model, "device: {type: cpu}", overrides);

    assertThat(result.lastEpoch().rows()).isEqualTo(160);
    assertThat(expected.lastEpoch().rows()).isEqualTo(40 * (1 + 2 + 3));
    assertThat(result.lastEpoch().loss()).isCloseTo(expected.lastEpoch().loss(), within(1e-5));
    assertThat(result.lastEpoch().accuracy())
        .isCloseTo(expected.lastEpoch().accuracy(), within(1e-6));
    assertThat(result.lastEpoch().evalLoss())
        .isCloseTo(expected.lastEpoch().evalLoss(), within(1e-5));
    assertThat(result.lastEpoch().evalAccuracy())
        .isCloseTo(expected.lastEpoch().evalAccuracy(), within(1e-6));
  }

  @Test
  void aWeightThatIsNoneIsNamedBeforeTheTraining() {
    people = people.withColumn("w", people.col("w").minus(1));

    assertThatThrownBy(() -> fit("{type: tabular}", "device: {type: cpu}", "data.weight=w"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot use column 'w' as weight")
        .hasMessageContaining("got -1.0 in row ");
  }

  @Test
  void aLabelCanBeAnArraySeveralColumnsOrNone() {
    assertThat(
            fit(
                    "{type: class, name: '" + Pair.class.getName() + "'}",
                    "loss: mse",
                    "data.label=[hours, pair, job]",
                    "training.epochs=1")
                .parameters())
        .isEqualTo((2 + 1) * 4);
    TrainingResult none =
        fit(
            "{type: class, name: '" + OwnLoss.class.getName() + "'}",
            "loss: output",
            "data.label=null",
            "data.weight=w",
            "device.parallel={strategy: dp, replicas: 2}");
    assertThat(none.lastEpoch().loss()).isLessThan(none.epochs().get(0).loss());
    assertThat(none.lastEpoch().accuracy()).isNull();
    assertThatThrownBy(() -> fit("{type: tabular}", "loss: cross_entropy", "data.label=pair"))
        .hasMessage(
            "Cannot count the classes of label [pair]: expected one number per row, got shape [2]. Set model.outputs to the number of classes.");
  }

  @Test
  void testRowsCanComeFromASecondDataFrame() {
    Dataset<Row> train = people.filter("NOT test");
    Dataset<Row> test = people.filter("test AND job = 1");
    String path = folder.resolve("test-rows").toString();
    test.write().parquet(path);
    TrainerConfig plain =
        config("{type: tabular, hidden: [8]}", "device: {type: cpu}", "data.validation=0");
    TrainingResult byHand = new SparkTrainer(plain).fit(train, test);
    TrainingResult byPath =
        new SparkTrainer(
                config(
                    "{type: tabular, hidden: [8]}",
                    "device: {type: cpu}",
                    "data.validation={source: parquet, path: " + path + "}"))
            .fit(train);

    assertThat(byHand.lastEpoch().rows()).isEqualTo(160);
    assertThat(byHand.lastEpoch().evalAccuracy()).isEqualTo(1);
    assertThat(byPath.lastEpoch().evalLoss())
        .isCloseTo(byHand.lastEpoch().evalLoss(), within(1e-9));
    assertThatThrownBy(
            () ->
                new SparkTrainer(config("{type: tabular}", "device: {type: cpu}")).fit(train, test))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("expected one place for them");
    assertThatThrownBy(() -> new SparkTrainer(plain).fit(train, test.drop("city")))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("In the validation DataFrame: Cannot read column 'city'");
  }

  /** Dark and bright pictures of several sizes, one folder per class. */
  @Test
  void aFolderOfImagesReachesAConvolution(SparkSession spark) throws IOException {
    for (int i = 0; i < 24; i++) {
      Path bin =
          Files.createDirectories(folder.resolve(i % 2 == 0 ? "images/dark" : "images/light"));
      BufferedImage picture = new BufferedImage(9 + i % 3, 12, BufferedImage.TYPE_INT_RGB);
      int level = i % 2 == 0 ? 20 + i : 220 - i;
      for (int at = 0; at < picture.getWidth() * 12; at++) {
        picture.setRGB(at / 12, at % 12, (level + at % 9) * 0x010101);
      }
      assertThat(ImageIO.write(picture, "png", bin.resolve(i + ".png").toFile())).isTrue();
    }
    TrainerConfig config =
        TrainerConfig.parse(
            """
            data: {source: images, path: %s, features: [image], label: label,
                   images: {height: 10, width: 8}, validation: 0.25}
            model: {type: cnn, filters: 2}
            optimizer: {type: adam, lr: 0.02}
            training: {epochs: 6, batch_size: 6, seed: 1}
            metrics: {console: false}
            output: %s
            """
                .formatted(folder.resolve("images"), folder.resolve("run")));
    TrainingResult result = new SparkTrainer(config).fit(spark);

    assertThat(result.lastEpoch().loss()).isLessThan(0.5 * result.epochs().get(0).loss());
    Files.write(folder.resolve("images/dark/broken.png"), new byte[] {1, 2, 3});
    assertThatThrownBy(() -> new SparkTrainer(config).fit(spark))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining("Cannot decode column 'image': expected an image, got 3 bytes in row")
        .hasMessageContaining("images/dark/broken.png");
  }

  /** Uses numbers and categories by their places. */
  public static final class Pair extends Block {
    private final Linear linear;

    public Pair(ModelShape shape) {
      linear = child("linear", new Linear(shape.input("categories").values(), shape.outputs()));
      assertThat(shape.inputs())
          .extracting(ModelShape.Input::name)
          .isEqualTo(List.of("numbers", "categories"));
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return linear.call(inputs[1].to(inputs[0].scalar_type()));
    }
  }

  /** Learns to give 0, as its loss says, one number per row. */
  public static final class OwnLoss extends Block {
    private final Linear linear = child("linear", new Linear(2, 1));

    @Override
    protected Tensor forward(Tensor... inputs) {
      return linear.call(inputs[1].to(inputs[0].scalar_type())).square().flatten();
    }
  }
}
