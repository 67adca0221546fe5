package io.sparktrainer.checkpoint;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What is not a whole safetensors file is refused, by file and by stream, saying why. */
class TestCorruptSafetensors {
  @TempDir Path folder;

  private static byte[] file(String header, int dataBytes) {
    byte[] json = header.getBytes(UTF_8);
    return file(json.length, json, dataBytes);
  }

  private static byte[] file(long statedLength, byte[] json, int dataBytes) {
    return ByteBuffer.allocate(8 + json.length + dataBytes)
        .order(ByteOrder.LITTLE_ENDIAN)
        .putLong(statedLength)
        .put(json)
        .array();
  }

  private void refused(byte[] content, String reason) throws IOException {
    refusedAsFile(content, reason);
    assertThatThrownBy(() -> Safetensors.read(new ByteArrayInputStream(content), "bad"))
        .isInstanceOf(CorruptFileException.class)
        .hasMessage("Cannot read bad: " + reason);
  }

  private void refusedAsFile(byte[] content, String reason) throws IOException {
    Path file = folder.resolve("bad");
    Files.write(file, content);
    assertThatThrownBy(() -> Safetensors.open(file).close())
        .isInstanceOf(CorruptFileException.class)
        .hasMessage("Cannot read " + file + ": " + reason);
  }

  @Test
  void headerLengths() throws IOException {
    refused(
        file(Long.MAX_VALUE, new byte[10], 0),
        "expected a header of 2 to 100000000 bytes, got 9223372036854775807. It may not be a safetensors file.");
    refused(
        file(-1, new byte[10], 0),
        "expected a header of 2 to 100000000 bytes, got 18446744073709551615. It may not be a safetensors file.");
    refused(
        file(0, new byte[10], 0),
        "expected a header of 2 to 100000000 bytes, got 0. It may not be a safetensors file.");
    refusedAsFile(new byte[5], "expected at least 8 bytes, got 5. It is not a safetensors file.");
    refusedAsFile(
        file(50, new byte[10], 0),
        "expected a header of 50 bytes, got 18 bytes in all. The file is cut short, or not a safetensors file.");
  }

  @Test
  void json() throws IOException {
    refused(file("[1, 2]", 0), "expected its header to be a JSON object, got ARRAY.");
    refused(
        file("{\"a\": }", 0),
        "its header is not valid JSON: Unexpected character ('}' (code 125)): expected a value.");
    refused(
        file(
            "{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0, 1]},"
                + " \"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [1, 2]}}",
            2),
        "its header is not valid JSON: Duplicate field 'a'.");
    refused(
        file("{\"__metadata__\": {\"epoch\": 3}}", 0),
        "expected text for __metadata__.epoch, got 3.");
    refused(
        file("{\"__metadata__\": \"x\"}", 0),
        "expected __metadata__ to be a JSON object, got \"x\".");
  }

  @Test
  void entries() throws IOException {
    refused(
        file("{\"a\": {\"dtype\": \"F8_E4M3\", \"shape\": [1], \"data_offsets\": [0, 1]}}", 1),
        "expected tensor \"a\" to have a dtype of [BF16, BOOL, F16, F32, F64, I16, I32, I64, I8, U8], got \"F8_E4M3\".");
    refused(
        file("{\"a\": {\"dtype\": \"U8\", \"shape\": [-1], \"data_offsets\": [0, 1]}}", 1),
        "expected whole numbers from 0 as shape of tensor \"a\", got [-1].");
    refused(
        file("{\"a\": {\"dtype\": \"U8\", \"shape\": [1.5], \"data_offsets\": [0, 1]}}", 1),
        "expected whole numbers from 0 as shape of tensor \"a\", got [1.5].");
    refused(
        file("{\"a\": {\"dtype\": \"U8\", \"shape\": 1, \"data_offsets\": [0, 1]}}", 1),
        "expected a list as shape of tensor \"a\", got 1.");
    refused(
        file("{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [0]}}", 1),
        "expected data_offsets [begin, end] of tensor \"a\", got [0].");
    refused(
        file("{\"a\": {\"dtype\": \"U8\", \"shape\": [1], \"data_offsets\": [1, 0]}}", 1),
        "expected data_offsets [begin, end] of tensor \"a\", got [1, 0].");
    refused(
        file("{\"a\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 20]}}", 20),
        "tensor \"a\" of float32[2, 3] needs 24 bytes, but its data_offsets [0, 20] hold 20.");
    refused(
        file(
            "{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296], \"data_offsets\": [0, 0]}}",
            0),
        "shape [4294967296, 4294967296] of tensor \"a\" is too large.");
  }

  @Test
  void offsets() throws IOException {
    refused(
        file(
            "{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]},"
                + " \"b\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [2, 6]}}",
            6),
        "expected the data of tensor \"b\" to begin where that of \"a\" ends, at byte 4, got 2.");
    refused(
        file(
            "{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [0, 4]},"
                + " \"b\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [5, 9]}}",
            9),
        "expected the data of tensor \"b\" to begin where that of \"a\" ends, at byte 4, got 5.");
    refused(
        file("{\"a\": {\"dtype\": \"U8\", \"shape\": [4], \"data_offsets\": [3, 7]}}", 7),
        "expected the data of tensor \"a\" to begin where that of the header ends, at byte 0, got 3.");
  }

  @Test
  void dataLengths() throws IOException {
    String header = "{\"a\": {\"dtype\": \"U8\", \"shape\": [9], \"data_offsets\": [0, 9]}}";
    refusedAsFile(
        file(header, 8),
        "expected 9 bytes of data after the header, got 8. The file is cut short.");
    refusedAsFile(
        file(header, 10),
        "expected 9 bytes of data after the header, got 10. Something was added to the file.");
  }

  @Test
  void everyCutOfAStream() throws IOException {
    byte[] whole =
        file("{\"a\": {\"dtype\": \"U8\", \"shape\": [9], \"data_offsets\": [0, 9]}}", 9);
    for (int length = 0; length < whole.length; length++) {
      byte[] cut = Arrays.copyOf(whole, length);
      String within =
          length < 8
              ? "the header's length"
              : length < whole.length - 9 ? "the header" : "tensor \"a\"";
      try (var scope = NativeScope.open()) {
        assertThatThrownBy(() -> Safetensors.read(new ByteArrayInputStream(cut), "cut"))
            .isInstanceOf(CorruptFileException.class)
            .hasMessage("Cannot read cut: it ended within " + within + ". The file is cut short.");
      }
    }
  }

  @Test
  void aFileThatIsCutWhileItIsRead() throws IOException {
    Path file = folder.resolve("shrinking");
    try (var scope = NativeScope.open()) {
      Safetensors.write(file, Map.of("a", Tensors.of(new float[] {1, 2}, 2)), Map.of());
      try (SafetensorsFile open = Safetensors.open(file)) {
        long size = Files.size(file);
        try (var channel =
            java.nio.channels.FileChannel.open(file, java.nio.file.StandardOpenOption.WRITE)) {
          channel.truncate(size - 4);
        }
        assertThatThrownBy(() -> open.read("a"))
            .isInstanceOf(CorruptFileException.class)
            .hasMessage(
                "Cannot read %s: it ended at byte %d. The file was cut while being read."
                    .formatted(file, size - 4));
      }
    }
  }

  @Test
  void aFileThatIsNotThere() {
    assertThatThrownBy(() -> Safetensors.open(folder.resolve("none")))
        .isInstanceOf(java.nio.file.NoSuchFileException.class)
        .hasMessageContaining("none");
  }
}
