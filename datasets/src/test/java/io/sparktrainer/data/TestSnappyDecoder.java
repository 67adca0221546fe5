package io.sparktrainer.data;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.xerial.snappy.Snappy;

class TestSnappyDecoder {
  private static final int[] SIZES = {0, 1, 3, 8, 60, 61, 95, 96, 97, 200, 1000, 66_000, 200_000};

  private enum Content {
    WIDENED_FLOATS {
      @Override
      void put(ByteBuffer to, Random random) {
        to.putDouble(random.nextFloat());
      }
    },
    FLOATS {
      @Override
      void put(ByteBuffer to, Random random) {
        to.putFloat(random.nextFloat());
      }
    },
    HALVES {
      @Override
      void put(ByteBuffer to, Random random) {
        to.putDouble(random.nextInt(20) / 2.0);
      }
    },
    SMALL_NUMBERS {
      @Override
      void put(ByteBuffer to, Random random) {
        to.putLong(random.nextInt(1000));
      }
    },
    MOSTLY_ZEROS {
      @Override
      void put(ByteBuffer to, Random random) {
        to.putFloat(random.nextInt(10) == 0 ? random.nextFloat() : 0);
      }
    },
    RUNS_OF_SHORT_PATTERNS {
      @Override
      void put(ByteBuffer to, Random random) {
        byte[] pattern = new byte[1 + random.nextInt(9)];
        random.nextBytes(pattern);
        for (int left = random.nextInt(100); left > 0 && to.remaining() > 16; left--) {
          to.put(pattern);
        }
      }
    },
    WORDS {
      @Override
      void put(ByteBuffer to, Random random) {
        to.put(
            "train shard gather the and"
                .substring(random.nextInt(13), 13 + random.nextInt(13))
                .getBytes(US_ASCII));
      }
    };

    abstract void put(ByteBuffer to, Random random);

    byte[] bytes(int size, Random random) {
      ByteBuffer buffer = ByteBuffer.allocate(size + 200).order(ByteOrder.LITTLE_ENDIAN);
      while (buffer.position() < size) {
        put(buffer, random);
      }
      return Arrays.copyOf(buffer.array(), size);
    }
  }

  /** Decompresses from the middle of an array into the front of a longer one. */
  private static byte[] decompress(byte[] compressed, int size) throws IOException {
    byte[] in = new byte[compressed.length + 300];
    Arrays.fill(in, (byte) 0xa5);
    System.arraycopy(compressed, 0, in, 100, compressed.length);
    SnappyDecoder decoder = new SnappyDecoder(in, 100, compressed.length);
    assertThat(decoder.size()).isEqualTo(size);
    byte[] out = new byte[size + 150];
    Arrays.fill(out, (byte) 0x5a);
    decoder.decompress(out);
    return Arrays.copyOf(out, size);
  }

  @ParameterizedTest
  @EnumSource
  void givesBackWhatSnappyCompressed(Content content) throws IOException {
    for (int size : SIZES) {
      byte[] bytes = content.bytes(size, new Random(size));
      byte[] compressed = Snappy.compress(bytes);
      assertThat(decompress(compressed, size)).as("%d bytes", size).isEqualTo(bytes);
      byte[] exact = new byte[size];
      new SnappyDecoder(compressed, 0, compressed.length).decompress(exact);
      assertThat(exact).as("%d bytes, into just as many", size).isEqualTo(bytes);
    }
  }

  /** Writes elements, and beside them, byte by byte, what they mean. */
  private static final class Elements {
    private final ByteArrayOutputStream compressed = new ByteArrayOutputStream();
    private final byte[] meant = new byte[1 << 20];
    private int size;

    private void number(int value, int bytes) {
      for (int i = 0; i < bytes; i++) {
        compressed.write(value >>> (8 * i));
      }
    }

    void literal(byte[] bytes, int lengthBytes) {
      if (lengthBytes == 0) {
        compressed.write((bytes.length - 1) << 2);
      } else {
        compressed.write((59 + lengthBytes) << 2);
        number(bytes.length - 1, lengthBytes);
      }
      compressed.writeBytes(bytes);
      System.arraycopy(bytes, 0, meant, size, bytes.length);
      size += bytes.length;
    }

    void copy(int distance, int length, int distanceBytes) {
      if (distanceBytes == 1) {
        compressed.write(((distance >>> 8) << 5) | ((length - 4) << 2) | 1);
      } else {
        compressed.write(((length - 1) << 2) | (distanceBytes == 2 ? 2 : 3));
      }
      number(distance, distanceBytes);
      for (int i = 0; i < length; i++, size++) {
        meant[size] = meant[size - distance];
      }
    }

    byte[] compressed() {
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      int left = size;
      for (; left >= 128; left >>>= 7) {
        all.write(left | 128);
      }
      all.write(left);
      all.writeBytes(compressed.toByteArray());
      return all.toByteArray();
    }
  }

  @Test
  void readsEveryKindOfElementInAnyOrder() throws IOException {
    for (int seed = 0; seed < 300; seed++) {
      Random random = new Random(seed);
      Elements elements = new Elements();
      int count = random.nextInt(400);
      for (int i = 0; i <= count; i++) {
        if (elements.size == 0 || random.nextBoolean()) {
          int lengthBytes = random.nextInt(10) == 0 ? 1 + random.nextInt(4) : 0;
          int most =
              lengthBytes == 0 ? (random.nextBoolean() ? 5 : 60) : lengthBytes == 1 ? 256 : 700;
          byte[] literal = new byte[1 + random.nextInt(most)];
          random.nextBytes(literal);
          elements.literal(literal, lengthBytes);
        } else {
          int bytes = random.nextInt(10) == 0 ? 4 : 1 + random.nextInt(2);
          int length = bytes == 1 ? 4 + random.nextInt(8) : 1 + random.nextInt(64);
          int farthest = Math.min(elements.size, bytes == 1 ? 2047 : bytes == 2 ? 65535 : 1 << 20);
          int distance =
              1 + random.nextInt(random.nextBoolean() ? Math.min(farthest, 12) : farthest);
          elements.copy(distance, length, bytes);
        }
      }
      byte[] compressed = elements.compressed();
      byte[] meant = Arrays.copyOf(elements.meant, elements.size);
      assertThat(Snappy.uncompress(compressed)).as("native Snappy, seed %d", seed).isEqualTo(meant);
      assertThat(decompress(compressed, meant.length)).as("seed %d", seed).isEqualTo(meant);
    }
  }

  @ParameterizedTest
  @EnumSource
  void doesNoMoreThanThrowWhereBytesAreDamaged(Content content) throws IOException {
    int refused = 0;
    for (int seed = 0; seed < 2000; seed++) {
      Random random = new Random(seed);
      byte[] bytes = content.bytes(1 + random.nextInt(2000), random);
      byte[] compressed = Snappy.compress(bytes);
      int sizeBytes = bytes.length < 128 ? 1 : 2;
      for (int i = random.nextInt(4); i >= 0; i--) {
        compressed[sizeBytes + random.nextInt(compressed.length - sizeBytes)] =
            (byte) random.nextInt();
      }
      int end =
          random.nextBoolean() ? compressed.length : 3 + random.nextInt(compressed.length - 2);
      byte[] out = new byte[bytes.length];
      try {
        new SnappyDecoder(compressed, 0, Math.min(end, compressed.length)).decompress(out);
        // other bytes, of a form that cannot be told from what was compressed
        assertThat(Snappy.uncompress(Arrays.copyOf(compressed, Math.min(end, compressed.length))))
            .as("seed %d", seed)
            .isEqualTo(out);
      } catch (IOException e) {
        assertThat(e).hasMessageStartingWith("a page is damaged: its Snappy has ");
        assertThat(Snappy.isValidCompressedBuffer(compressed, 0, Math.min(end, compressed.length)))
            .as("seed %d", seed)
            .isFalse();
        refused++;
      }
    }
    assertThat(refused).isGreaterThan(100);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "''           | an end in the middle of an element after 0 of 0 bytes",
        "ffffffff7f   | a size of more than 2^31 - 1 bytes after 0 of 0 bytes",
        "ffffffffff01 | a size of more than 2^31 - 1 bytes after 0 of 0 bytes",
        "05           | an end after 0 of 5 bytes",
        "05 08 010203 | an end after 3 of 5 bytes",
        "05 10 010203 | an end in the middle of an element after 0 of 5 bytes",
        "02 08 010203 | a literal of 3 bytes after 0 of 2 bytes",
        "05 fc ffffffff 01 | a literal of 0 bytes after 0 of 5 bytes",
        "05 fc feffffff 01 | a literal of 4294967295 bytes after 0 of 5 bytes",
        "05 00 01 01 00 | a copy of 4 bytes from 0 bytes before after 1 of 5 bytes",
        "05 00 01 01 02 | a copy of 4 bytes from 2 bytes before after 1 of 5 bytes",
        "05 00 01 0f ffffffff | a copy of 4 bytes from 4294967295 bytes before after 1 of 5 bytes",
        "05 00 01 11 01 | a copy of 8 bytes from 1 bytes before after 1 of 5 bytes",
        "05 00 01 0e 01 | an end in the middle of an element after 1 of 5 bytes"
      })
  void saysWhatIsDamaged(String hex, String found) {
    byte[] compressed = HexFormat.of().parseHex(hex.replace(" ", ""));
    assertThatThrownBy(
            () -> new SnappyDecoder(compressed, 0, compressed.length).decompress(new byte[10]))
        .isInstanceOf(IOException.class)
        .hasMessage("a page is damaged: its Snappy has " + found);
  }

  @Test
  void findsDamageFarFromTheEndToo() {
    byte[] rest = new byte[500];
    for (int distance : new int[] {0, 2, 300}) {
      Elements damaged = new Elements();
      damaged.literal(new byte[1], 0);
      damaged.size = 1000; // where it would be if the copy were right
      damaged.copy(distance == 0 ? 1 : distance, 8, 2);
      damaged.literal(rest, 2);
      byte[] compressed = damaged.compressed();
      compressed[5] = (byte) distance; // behind two bytes of size, the literal and the copy's tag
      assertThatThrownBy(
              () ->
                  new SnappyDecoder(compressed, 0, compressed.length)
                      .decompress(new byte[damaged.size]))
          .isInstanceOf(IOException.class)
          .hasMessageContaining("bytes before after 1 of");
    }
  }
}
