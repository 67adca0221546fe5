package io.sparktrainer.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.testing.Golden;
import io.sparktrainer.testing.Memory;
import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import io.sparktrainer.torch.Threads;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TestSafetensors {
  @TempDir Path folder;

  private NativeScope scope;

  @BeforeEach
  void open() {
    Threads.use(1);
    scope = NativeScope.open();
  }

  @AfterEach
  void close() {
    scope.close();
  }

  @Test
  void everyElementTypeComesBackBitByBit() throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    for (DType dtype : DType.values()) {
      tensors.put(
          "t." + dtype,
          Values.tensor(new double[] {0, 1, 0, 1, 1, 0}, 3, 2).to(dtype.scalarType()));
    }
    tensors.put(
        "special",
        Values.tensor(new double[] {Double.NaN, -0.0, Double.NEGATIVE_INFINITY, 1e-320}, 4));
    Path file = folder.resolve("all.safetensors");
    Safetensors.write(file, tensors, Map.of("format", "pt", "note", "Gr\u00fc\u00dfe \"\\\n"));
    try (SafetensorsFile read = Safetensors.open(file)) {
      assertThat(read.names()).containsExactlyElementsOf(tensors.keySet());
      assertThat(read.metadata())
          .isEqualTo(Map.of("format", "pt", "note", "Gr\u00fc\u00dfe \"\\\n"));
      for (Map.Entry<String, Tensor> entry : tensors.entrySet()) {
        assertThat(read.dtype(entry.getKey())).isEqualTo(DType.of(entry.getValue()));
        assertThat(read.shape(entry.getKey())).isEqualTo(Tensors.shape(entry.getValue()));
        assertThat(Tensors.bytes(read.read(entry.getKey())))
            .as(entry.getKey())
            .isEqualTo(Tensors.bytes(entry.getValue()));
      }
    }
  }

  @Test
  void scalarsEmptyTensorsAndOddNamesComeBack() throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("step", Tensors.of(new float[] {3}));
    tensors.put("none", Tensors.empty(DType.FLOAT32, Device.CPU, 0, 5));
    tensors.put("w/exp_avg \"\u00e9\"", Tensors.of(new long[] {1, 2}, 2));
    tensors.put("", Tensors.of(new long[] {7}));
    Path file = folder.resolve("odd.safetensors");
    Safetensors.write(file, tensors, Map.of());
    Map<String, Tensor> read = Safetensors.read(file);
    assertThat(read.keySet()).containsExactlyElementsOf(tensors.keySet());
    read.forEach(
        (name, tensor) -> {
          assertThat(Tensors.describe(tensor)).isEqualTo(Tensors.describe(tensors.get(name)));
          assertThat(Values.of(tensor)).containsExactly(Values.of(tensors.get(name)));
        });
  }

  @Test
  void noTensorsAtAllIsAFileToo() throws IOException {
    Path file = folder.resolve("empty.safetensors");
    Safetensors.write(file, Map.of(), Map.of());
    assertThat(Safetensors.read(file)).isEmpty();
  }

  @Test
  void report29ElementsAreRowMajorWhateverTheLayout() throws IOException {
    Tensor plain = Values.tensor(new double[] {1, 2, 3, 4, 5, 6}, 2, 3);
    Tensor image = Values.tensor(new double[] {1, 2, 3, 4, 5, 6, 7, 8}, 1, 2, 2, 2);
    Map<String, Tensor> tensors =
        Map.of(
            "transposed", plain.t(),
            "column", plain.narrow(1, 1, 1),
            "expanded", plain.narrow(0, 0, 1).expand_as(plain),
            "channels_last", image.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
            "trained", plain.clone().set_requires_grad(true));
    Path file = folder.resolve("layouts.safetensors");
    Safetensors.write(file, tensors, Map.of());
    Map<String, Tensor> read = Safetensors.read(file);
    assertThat(read.values()).allMatch(Tensor::is_contiguous);
    assertThat(Values.of(read.get("transposed"))).containsExactly(1, 4, 2, 5, 3, 6);
    assertThat(Values.of(read.get("column"))).containsExactly(2, 5);
    assertThat(Values.of(read.get("expanded"))).containsExactly(1, 2, 3, 1, 2, 3);
    assertThat(Values.of(read.get("channels_last"))).containsExactly(1, 2, 3, 4, 5, 6, 7, 8);
    assertThat(Values.of(read.get("trained"))).containsExactly(1, 2, 3, 4, 5, 6);
  }

  @Test
  void dataIsAlignedToItsElements() throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("flags", Tensors.zeros(DType.BOOL, Device.CPU, 3));
    tensors.put("half", Tensors.zeros(DType.BFLOAT16, Device.CPU, 3));
    tensors.put("ids", Tensors.zeros(DType.INT64, Device.CPU, 3));
    tensors.put("floats", Tensors.zeros(DType.FLOAT32, Device.CPU, 3));
    SafetensorsHeader header = HeaderWriter.layOut(tensors, Map.of());
    assertThat(HeaderWriter.encode(header).remaining() % 8).isZero();
    assertThat(header.entries().values())
        .allMatch(entry -> entry.begin() % entry.dtype().bytes() == 0);
    assertThat(header.dataBytes()).isEqualTo(3 + 6 + 24 + 12);
  }

  @Test
  void streamsHoldTheSameBytesAsFiles() throws IOException {
    Map<String, Tensor> tensors = new LinkedHashMap<>();
    tensors.put("a", Tensors.of(new float[] {1, 2, 3}, 3));
    tensors.put("b", Tensors.of(new long[] {4, 5}, 2));
    Path file = folder.resolve("f.safetensors");
    Safetensors.write(file, tensors, Map.of("k", "v"));
    var bytes = new ByteArrayOutputStream();
    Safetensors.write(bytes, tensors, Map.of("k", "v"));
    assertThat(bytes.toByteArray()).isEqualTo(Files.readAllBytes(file));
    Map<String, Tensor> read =
        Safetensors.read(new ByteArrayInputStream(bytes.toByteArray()), "a stream");
    assertThat(read.keySet()).containsExactly("a", "b");
    assertThat(Values.of(read.get("a"))).containsExactly(1, 2, 3);
    assertThat(Values.of(read.get("b"))).containsExactly(4, 5);
  }

  @Test
  void readsIntoTensorsOfAnyLayoutAndType() throws IOException {
    Path file = folder.resolve("f.safetensors");
    Safetensors.write(
        file, Map.of("w", Tensors.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3)), Map.of());
    try (SafetensorsFile read = Safetensors.open(file)) {
      Tensor transposed = Tensors.zeros(DType.FLOAT64, Device.CPU, 3, 2).t();
      transposed.set_requires_grad(true);
      read.readInto("w", transposed);
      assertThat(Values.of(transposed)).containsExactly(1, 2, 3, 4, 5, 6);
      assertThatThrownBy(() -> read.readInto("w", Tensors.zeros(DType.FLOAT32, Device.CPU, 6)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("Cannot read tensor \"w\": expected shape [6], got [2, 3] in the file.");
      assertThatThrownBy(() -> read.read("v"))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage("Cannot read tensor \"v\": the file has [w].");
    }
  }

  @Test
  void readsWhatPyTorchWroteAndWritesItBackAlike() throws IOException {
    Path golden = Golden.folder().resolve("ddp2-cnn-bn-sgd").resolve("init.safetensors");
    Map<String, Tensor> state = Safetensors.read(golden);
    assertThat(Tensors.describe(state.get("conv2.weight")))
        .isEqualTo("float32[16, 8, 3, 3] on cpu");
    assertThat(Tensors.describe(state.get("bn1.num_batches_tracked"))).isEqualTo("int64[] on cpu");
    assertThat(Values.of(state.get("bn1.running_var"))).containsOnly(1);
    Path copy = folder.resolve("copy.safetensors");
    Safetensors.write(copy, state, Map.of());
    Map<String, Tensor> again = Safetensors.read(copy);
    assertThat(again.keySet()).isEqualTo(state.keySet());
    state.forEach((name, tensor) -> assertThat(tensor.equal(again.get(name))).as(name).isTrue());
  }

  @Test
  void readsEveryGoldenFile() throws IOException {
    int files = 0;
    for (Path golden : Golden.cases()) {
      for (String name : new String[] {"init", "final", "data"}) {
        try (SafetensorsFile file = Safetensors.open(golden.resolve(name + ".safetensors"))) {
          assertThat(file.names()).isNotEmpty();
          files++;
        }
      }
    }
    assertThat(files).isGreaterThanOrEqualTo(3);
  }

  @Test
  void aFailedWriteLeavesTheOldFileAndNothingElse() throws IOException {
    Path file = folder.resolve("model.safetensors");
    Safetensors.write(file, Map.of("w", Tensors.of(new float[] {1}, 1)), Map.of());
    byte[] before = Files.readAllBytes(file);
    Tensor complex =
        torch.empty(
            new long[] {2},
            new org.bytedeco.pytorch.TensorOptions(torch.ScalarType.ComplexFloat),
            null);
    assertThatThrownBy(() -> Safetensors.write(file, Map.of("w", complex), Map.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("Cannot use element type ComplexFloat");
    assertThatThrownBy(() -> Safetensors.write(file, Map.of("w", new Tensor()), Map.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot write tensor \"w\": expected a tensor with content, got an undefined one.");
    assertThatThrownBy(
            () ->
                Safetensors.write(
                    file, Map.of("__metadata__", Tensors.of(new float[] {1}, 1)), Map.of()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot write a tensor called \"__metadata__\": the name is the format's own.");
    // the rename fails after everything has been written
    Path occupied = Files.createDirectories(folder.resolve("taken").resolve("inside")).getParent();
    assertThatThrownBy(
            () ->
                Safetensors.write(occupied, Map.of("w", Tensors.of(new float[] {1}, 1)), Map.of()))
        .isInstanceOf(IOException.class)
        .hasMessageContaining("taken");
    assertThat(Files.readAllBytes(file)).isEqualTo(before);
    try (var entries = Files.list(folder)) {
      assertThat(entries).containsExactlyInAnyOrder(file, occupied);
    }
  }

  @Test
  void aWriteReplacesTheOldFile() throws IOException {
    Path file = folder.resolve("model.safetensors");
    Safetensors.write(file, Map.of("w", Tensors.of(new float[] {1}, 1)), Map.of());
    Safetensors.write(file, Map.of("w", Tensors.of(new float[] {2}, 1)), Map.of());
    assertThat(Values.of(Safetensors.read(file).get("w"))).containsExactly(2);
  }

  @Test
  void readingAndWritingLeaveNoMemoryBehind() throws IOException {
    Map<String, Tensor> tensors =
        Map.of("w", Tensors.zeros(DType.FLOAT32, Device.CPU, 64, 1024).t());
    Path file = folder.resolve("w.safetensors");
    Safetensors.write(file, tensors, Map.of());
    // each pass handles three times 256 KiB
    long growth =
        Memory.growth(
            200,
            () -> {
              try (var inner = NativeScope.open()) {
                Safetensors.write(OutputStream.nullOutputStream(), tensors, Map.of());
                Safetensors.read(file);
              } catch (IOException e) {
                throw new UncheckedIOException(e);
              }
            });
    assertThat(growth).isLessThan(20L << 20);
  }
}
