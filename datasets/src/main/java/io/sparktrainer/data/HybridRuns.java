package io.sparktrainer.data;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.parquet.column.values.bitpacking.BytePacker;
import org.apache.parquet.column.values.bitpacking.Packer;

/**
 * Parquet's RLE and bit-packing hybrid, which holds levels and dictionary indices: runs of one
 * value, and groups of 8 values of {@code width} bits each.
 *
 * <p>Source: "Run Length Encoding / Bit-Packing Hybrid" in Apache Parquet's Encodings.md.
 */
final class HybridRuns {
  /** A group may end behind the last value. */
  static final int SLACK = 8;

  private final byte[] in;
  private final int end;
  private final int width;
  private int at;

  /** Takes the bytes from {@code start} to {@code end}. */
  HybridRuns(byte[] in, int start, int end, int width) {
    this.in = in;
    this.at = start;
    this.end = end;
    this.width = width;
  }

  /**
   * Decodes all values.
   *
   * @param out takes them; holds {@link #SLACK} more than {@code count}
   */
  void decode(int[] out, int count) {
    BytePacker packer = Packer.LITTLE_ENDIAN.newBytePacker(width);
    ByteBuffer bytes = ByteBuffer.wrap(in);
    int done = 0;
    while (done < count) {
      int header = header();
      if ((header & 1) == 0) {
        int run = Math.min(header >>> 1, count - done);
        Arrays.fill(out, done, done + run, runValue());
        done += run;
      } else {
        for (int group = header >>> 1; group > 0; group--, at += width) {
          if (done >= count) {
            return;
          }
          if (at + width <= in.length) {
            packer.unpack8Values(bytes, at, out, done);
          } else {
            ByteBuffer padded = ByteBuffer.wrap(Arrays.copyOfRange(in, at, at + width));
            packer.unpack8Values(padded, 0, out, done);
          }
          done += 8;
        }
      }
    }
  }

  /**
   * Finds the zeros among values of one bit.
   *
   * @param out takes their places; holds {@link #SLACK} more than {@code count}
   * @return how many there are
   */
  int zeros(int[] out, int count) {
    int found = 0;
    int done = 0;
    while (done < count) {
      int header = header();
      if ((header & 1) == 0) {
        int run = Math.min(header >>> 1, count - done);
        if (runValue() == 0) {
          for (int i = 0; i < run; i++) {
            out[found++] = done + i;
          }
        }
        done += run;
      } else {
        int last = Math.min(count, done + (header >>> 1) * 8);
        while (done < last) {
          long zeros = ~wordAt(at);
          int some = Math.min(Long.SIZE, last - done);
          zeros &= some == Long.SIZE ? -1L : (1L << some) - 1;
          for (; zeros != 0; zeros &= zeros - 1) {
            out[found++] = done + Long.numberOfTrailingZeros(zeros);
          }
          done += some;
          at += (some + 7) / 8;
        }
      }
    }
    return found;
  }

  /** The next eight bytes, with zeros behind the end. */
  private long wordAt(int from) {
    if (from + Long.BYTES <= in.length) {
      return Bytes.getLong(in, from);
    }
    return ByteBuffer.wrap(Arrays.copyOfRange(in, from, from + Long.BYTES))
        .order(ByteOrder.LITTLE_ENDIAN)
        .getLong();
  }

  /** Whether all values are this one, as far as runs tell it. */
  boolean isOneRun(int value, int count) {
    int done = 0;
    while (done < count) {
      int header = header();
      if ((header & 1) != 0 || runValue() != value) {
        return false;
      }
      done += header >>> 1;
    }
    return true;
  }

  private int header() {
    int header = 0;
    for (int shift = 0; ; shift += 7) {
      if (at >= end) {
        throw new IllegalStateException("the page ends within its levels or indices");
      }
      byte next = in[at++];
      header |= (next & 0x7f) << shift;
      if (next >= 0) {
        return header;
      }
    }
  }

  private int runValue() {
    int value = 0;
    for (int shift = 0; shift < width; shift += 8) {
      value |= (in[at++] & 0xff) << shift;
    }
    return value;
  }
}
