package io.sparktrainer.data;

import java.io.IOException;
import java.util.Objects;

/**
 * Decompresses Snappy from array to array, after the {@code format_description.txt} of
 * github.com/google/snappy: the size, then literals and copies of what came before, each behind a
 * tag.
 *
 * <p>Written for pages of numbers, in which a literal of one to four bytes and a short copy take
 * turns: one load reads the two. Floats that were widened to doubles come out in less than half the
 * time that native Snappy takes, which decides how fast vectors of them are read. All access to the
 * arrays is checked, so that damaged pages can do no more than throw.
 */
final class SnappyDecoder {
  private static final int LITERAL = 0;
  private static final int COPY_1 = 1;
  private static final int COPY_2 = 2;
  private static final int COPY_4 = 3;

  private static final int WORD = Long.BYTES;

  /** More than a turn of {@link #runShort} reads, or writes, from where it begins. */
  private static final int MARGIN = 96;

  /** Literals with more in their tag have their length behind it, in 1 to 4 bytes. */
  private static final int MOST_IN_TAG = 59;

  private final byte[] in;
  private final int inEnd;
  private final int size;
  private int inAt;
  private int outAt;

  /**
   * Goes to the start of compressed bytes.
   *
   * @throws IOException if they do not start with a size
   */
  SnappyDecoder(byte[] in, int start, int count) throws IOException {
    Objects.checkFromIndexSize(start, count, in.length);
    this.in = in;
    this.inAt = start;
    this.inEnd = start + count;
    this.size = readSize();
  }

  private int readSize() throws IOException {
    long found = 0;
    for (int shift = 0; shift < Integer.SIZE; shift += 7) {
      byte part = in[next(1)];
      found |= (long) (part & 0x7f) << shift;
      if (part >= 0 && found <= Integer.MAX_VALUE) {
        return (int) found;
      }
    }
    throw damaged("a size of more than 2^31 - 1 bytes");
  }

  /** How many bytes come out. */
  int size() {
    return size;
  }

  /**
   * Decompresses, once, into the front of an array; what lies behind {@link #size} is undefined
   * afterwards.
   *
   * @throws IOException if the bytes are not Snappy's
   */
  void decompress(byte[] out) throws IOException {
    Objects.checkFromIndexSize(0, size, out.length);
    while (inAt < inEnd) {
      runShort(out);
      if (inAt < inEnd) {
        step(out);
      }
    }
    if (outAt != size) {
      throw damaged("an end");
    }
  }

  /**
   * Goes on while elements are short and far from the end, so that whole words can be copied, more
   * than was asked for. Stops before an element that is not so, or cannot be.
   */
  private void runShort(byte[] out) {
    byte[] in = this.in;
    int read = inAt;
    int write = outAt;
    int readEnd = inEnd - MARGIN;
    int writeEnd = size - MARGIN;
    while (read < readEnd && write < writeEnd) {
      long word = Bytes.getLong(in, read);
      int tag = (int) word & 0xff;
      if ((tag & 3) == LITERAL) {
        int more = tag >>> 2; // than one byte
        if (more > 3) {
          if (more >= 2 * WORD) {
            break;
          }
          Bytes.putLong(out, write, Bytes.getLong(in, read + 1));
          Bytes.putLong(out, write + WORD, Bytes.getLong(in, read + 1 + WORD));
          read += more + 2;
          write += more + 1;
          continue;
        }
        Bytes.putLong(out, write, word >>> Byte.SIZE);
        read += more + 2;
        write += more + 1;
        // the next tag and the two bytes behind it are in the word, too
        word = (word >>> (2 * Byte.SIZE)) >>> (more * Byte.SIZE);
        tag = (int) word & 0xff;
        if ((tag & 3) == LITERAL) {
          continue;
        }
      }
      if ((tag & 3) == COPY_4) {
        break;
      }
      // no branch between the other two, which come in no order
      int ifTwo = -((tag >>> 1) & 1);
      int operand = (int) word >>> Byte.SIZE;
      int distance = select(ifTwo, operand & 0xffff, ((tag & 0xe0) << 3) | (operand & 0xff));
      int length = select(ifTwo, (tag >>> 2) + 1, ((tag >>> 2) & 7) + 4);
      if (distance > write) {
        break;
      }
      int at = write;
      if (distance < WORD) {
        if (distance == 0) {
          break;
        }
        // bytes that repeat are doubled until they are a word
        while (distance < WORD) {
          Bytes.putLong(out, at, Bytes.getLong(out, at - distance));
          at += distance;
          distance *= 2;
        }
      }
      read += 2 - ifTwo;
      write += length;
      Bytes.putLong(out, at, Bytes.getLong(out, at - distance));
      if (length > WORD) {
        for (at += WORD; at < write; at += WORD) {
          Bytes.putLong(out, at, Bytes.getLong(out, at - distance));
        }
      }
    }
    inAt = read;
    outAt = write;
  }

  private static int select(int mask, int ifSet, int otherwise) {
    return otherwise ^ ((otherwise ^ ifSet) & mask);
  }

  /** One element of any kind, to the last byte. */
  private void step(byte[] out) throws IOException {
    int tag = in[next(1)] & 0xff;
    int more = tag >>> 2;
    switch (tag & 3) {
      case LITERAL -> literal(more, out);
      case COPY_1 -> copy(((tag & 0xe0) << 3) | number(1), (more & 7) + 4, out);
      case COPY_2 -> copy(number(2), more + 1, out);
      default -> copy(number(4), more + 1, out);
    }
  }

  private void literal(int more, byte[] out) throws IOException {
    int length = 1 + (more > MOST_IN_TAG ? number(more - MOST_IN_TAG) : more);
    if (length <= 0 || length > size - outAt) {
      throw damaged("a literal of %d bytes".formatted(Integer.toUnsignedLong(length)));
    }
    System.arraycopy(in, next(length), out, outAt, length);
    outAt += length;
  }

  private void copy(int distance, int length, byte[] out) throws IOException {
    if (distance <= 0 || distance > outAt || length > size - outAt) {
      throw damaged(
          "a copy of %d bytes from %d bytes before"
              .formatted(length, Integer.toUnsignedLong(distance)));
    }
    int from = outAt - distance;
    int end = outAt + length;
    while (outAt < end) {
      // where the two overlap, what is there is doubled
      int count = Math.min(outAt - from, end - outAt);
      System.arraycopy(out, from, out, outAt, count);
      outAt += count;
    }
  }

  /** A little-endian number of 1 to 4 bytes. */
  private int number(int bytes) throws IOException {
    int at = next(bytes);
    int number = 0;
    for (int i = 0; i < bytes; i++) {
      number |= (in[at + i] & 0xff) << (i * Byte.SIZE);
    }
    return number;
  }

  /** Takes bytes of the input; returns where they begin. */
  private int next(int bytes) throws IOException {
    if (bytes > inEnd - inAt) {
      throw damaged("an end in the middle of an element");
    }
    inAt += bytes;
    return inAt - bytes;
  }

  private IOException damaged(String found) {
    return new IOException(
        "a page is damaged: its Snappy has %s after %d of %d bytes".formatted(found, outAt, size));
  }
}
