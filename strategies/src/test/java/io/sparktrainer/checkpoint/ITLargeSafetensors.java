package io.sparktrainer.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.testing.Values;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.NativeScope;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A tensor of more bytes than a Java buffer or array can hold. */
@Tag("proof")
class ITLargeSafetensors {
  private static final long BYTES = (2L << 30) + 5;

  @TempDir Path folder;

  @Test
  void passesThroughFilesAndStreams() throws IOException {
    Path file = folder.resolve("big.safetensors");
    var entry = new TensorEntry("big", DType.UINT8, List.of(BYTES), 0, BYTES);
    var header = HeaderWriter.encode(new SafetensorsHeader(Map.of("big", entry), Map.of()));
    long size = header.remaining() + BYTES;
    // a file with a hole, so that no disk is needed
    try (var channel =
        FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
      channel.write(header);
      channel.write(ByteBuffer.wrap(new byte[] {7, 8, 9}), size - 3);
    }
    try (var scope = NativeScope.open();
        SafetensorsFile open = Safetensors.open(file)) {
      Tensor tensor = open.read("big");
      assertThat(tensor.numel()).isEqualTo(BYTES);
      assertThat(Values.of(tensor.narrow(0, BYTES - 5, 5))).containsExactly(0, 0, 7, 8, 9);
      var written = new Tail();
      Safetensors.write(written, Map.of("big", tensor), Map.of());
      assertThat(written.count).isEqualTo(size);
      assertThat(written.last).containsExactly(0, 0, 0, 0, 0, 7, 8, 9);
    }
  }

  /** Counts bytes and keeps the last eight. */
  private static final class Tail extends OutputStream {
    private long count;
    private byte[] last = new byte[8];

    @Override
    public void write(int value) {
      write(new byte[] {(byte) value}, 0, 1);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) {
      count += length;
      int taken = Math.min(8, length);
      byte[] joined = Arrays.copyOf(last, last.length + taken);
      System.arraycopy(bytes, offset + length - taken, joined, last.length, taken);
      last = Arrays.copyOfRange(joined, taken, joined.length);
    }
  }
}
