package io.sparktrainer.data;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.apache.parquet.bytes.ByteBufferInputStream;
import org.apache.parquet.bytes.BytesInput;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.column.Encoding;
import org.apache.parquet.column.ValuesType;
import org.apache.parquet.column.page.DataPage;
import org.apache.parquet.column.page.DataPageV1;
import org.apache.parquet.column.page.DataPageV2;
import org.apache.parquet.column.page.DictionaryPage;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.column.page.PageReader;
import org.apache.parquet.column.values.ValuesReader;
import org.jspecify.annotations.Nullable;

/**
 * One leaf column of a Parquet file, page by page: numbers, or one level of lists of numbers.
 *
 * <p>A page's values are little-endian numbers of one width in slots, a slot per row or, in lists,
 * per element, nulls included. Where a page holds plain numbers without nulls, which is the rule
 * for numbers that vary, its own bytes serve and nothing is copied.
 */
final class ParquetLeaf {
  private static final int NO_LIST = -1;

  private final ColumnDescriptor column;
  private final int width;
  private final int listLevel;
  private final PageArrays arrays;
  private @Nullable PageReader pages;
  private ByteBuffer page = ByteBuffer.allocate(0);
  private byte[] dictionary = {};

  /** Bytes of the page's slots, from {@link #base}. */
  byte[] values = {};

  int base;

  /** Which slots are null; or null where none is. */
  boolean @Nullable [] nullSlots;

  /** Which rows hold no list; or null where all do. */
  boolean @Nullable [] nullRows;

  /** First slot of each row's list, and the end of the last. */
  int[] starts = {};

  private boolean[] none = {};
  private int rows;
  private int row;
  private long firstRow;
  private byte[] expanded = {};
  private int[] repetitions = {};
  private int[] definitions = {};
  private int[] indices = {};

  private ParquetLeaf(ColumnDescriptor column, int listLevel, PageArrays arrays) {
    this.column = column;
    this.arrays = arrays;
    this.listLevel = listLevel;
    this.width =
        switch (column.getPrimitiveType().getPrimitiveTypeName()) {
          case BOOLEAN -> 1;
          case INT32, FLOAT -> Integer.BYTES;
          case INT64, DOUBLE -> Long.BYTES;
          default -> throw new IllegalArgumentException("Cannot read " + column + " as a number.");
        };
  }

  /** A column of numbers. */
  static ParquetLeaf numbers(ColumnDescriptor column, PageArrays arrays) {
    return new ParquetLeaf(column, NO_LIST, arrays);
  }

  /** A column of lists that are there from a definition level on. */
  static ParquetLeaf lists(ColumnDescriptor column, int listLevel, PageArrays arrays) {
    return new ParquetLeaf(column, listLevel, arrays);
  }

  ColumnDescriptor column() {
    return column;
  }

  int width() {
    return width;
  }

  /**
   * Goes to pages of a row group.
   *
   * @param firstRow of the row group that counts; the first page may begin before it
   */
  void open(PageReadStore group, long firstRow) throws IOException {
    pages = group.getPageReader(column);
    DictionaryPage page = pages.readDictionaryPage();
    dictionary = new byte[0];
    if (page != null) {
      ByteBuffer bytes = onHeap(page.getBytes());
      dictionary = new byte[bytes.remaining()];
      bytes.get(dictionary);
      arrays.giveBack(bytes);
    }
    rows = 0;
    row = 0;
    this.firstRow = firstRow;
  }

  /** The next row's place in the page. */
  int row() {
    return row;
  }

  /** Rows that the page still has; reads the next page where it has none. */
  int remaining() throws IOException {
    while (row == rows) {
      arrays.giveBack(page);
      DataPage next = pages == null ? null : pages.readPage();
      if (next == null) {
        throw new IOException("it has fewer rows than its row group");
      }
      row = (int) Math.max(0, firstRow - next.getFirstRowIndex().orElse(firstRow));
      if (next instanceof DataPageV2 second) {
        read(second);
      } else {
        read((DataPageV1) next);
      }
    }
    return rows - row;
  }

  void skip(int count) {
    row += count;
  }

  /** Gives the page back; the leaf's values are undefined from now on. */
  void close() {
    arrays.giveBack(page);
    values = new byte[0];
  }

  private void read(DataPageV1 page) throws IOException {
    int count = page.getValueCount();
    ByteBuffer bytes = onHeap(page.getBytes());
    Levels repetition = levels(page.getRlEncoding(), ValuesType.REPETITION_LEVEL, count, bytes);
    Levels definition = levels(page.getDlEncoding(), ValuesType.DEFINITION_LEVEL, count, bytes);
    read(count, repetition, definition, page.getValueEncoding(), bytes);
  }

  private void read(DataPageV2 page) throws IOException {
    Levels repetition = runs(onHeap(page.getRepetitionLevels()), column.getMaxRepetitionLevel());
    Levels definition = runs(onHeap(page.getDefinitionLevels()), column.getMaxDefinitionLevel());
    read(
        page.getValueCount(),
        repetition,
        definition,
        page.getDataEncoding(),
        onHeap(page.getData()));
  }

  /** Levels of a page, not decoded before they are asked for. */
  private interface Levels {
    /** Whether all are this one, if that is easily seen. */
    boolean areAll(int level, int count);

    void decode(int[] out, int count) throws IOException;

    /** Finds the places of level 0 where the highest is 1; returns how many there are. */
    default int zeros(int[] out, int count) throws IOException {
      decode(out, count);
      int found = 0;
      for (int i = 0; i < count; i++) {
        if (out[i] == 0) {
          out[found++] = i;
        }
      }
      return found;
    }
  }

  /** Takes levels from the start of a page's bytes. */
  private Levels levels(Encoding encoding, ValuesType type, int count, ByteBuffer bytes)
      throws IOException {
    int max =
        type == ValuesType.REPETITION_LEVEL
            ? column.getMaxRepetitionLevel()
            : column.getMaxDefinitionLevel();
    if (max == 0) {
      return runs(ByteBuffer.allocate(0), 0);
    }
    if (encoding == Encoding.RLE) {
      int length = bytes.getInt();
      ByteBuffer own = bytes.slice().limit(length);
      bytes.position(bytes.position() + length);
      return runs(own, max);
    }
    // the bit-packed levels of the format's first years
    ValuesReader reader = encoding.getValuesReader(column, type);
    ByteBufferInputStream in = ByteBufferInputStream.wrap(bytes.slice());
    int before = in.available();
    reader.initFromPage(count, in);
    bytes.position(bytes.position() + before - in.available());
    return new Levels() {
      @Override
      public boolean areAll(int level, int number) {
        return false;
      }

      @Override
      public void decode(int[] out, int number) {
        for (int i = 0; i < number; i++) {
          out[i] = reader.readInteger();
        }
      }
    };
  }

  private static Levels runs(ByteBuffer bytes, int max) {
    int width = Integer.SIZE - Integer.numberOfLeadingZeros(max);
    int start = bytes.arrayOffset() + bytes.position();
    int end = start + bytes.remaining();
    return new Levels() {
      @Override
      public boolean areAll(int level, int count) {
        return max == 0
            ? level == 0
            : new HybridRuns(bytes.array(), start, end, width).isOneRun(level, count);
      }

      @Override
      public void decode(int[] out, int count) {
        if (max == 0) {
          Arrays.fill(out, 0, count, 0);
        } else {
          new HybridRuns(bytes.array(), start, end, width).decode(out, count);
        }
      }

      @Override
      public int zeros(int[] out, int count) {
        return new HybridRuns(bytes.array(), start, end, width).zeros(out, count);
      }
    };
  }

  private void read(
      int count, Levels repetition, Levels definition, Encoding encoding, ByteBuffer bytes)
      throws IOException {
    page = bytes;
    int max = column.getMaxDefinitionLevel();
    boolean full = definition.areAll(max, count);
    if (!full && definition.areAll((listLevel == NO_LIST ? max : listLevel) - 1, count)) {
      readNone(count);
      return;
    }
    if (!full) {
      definitions = room(definitions, count);
      definition.decode(definitions, count);
    }
    int slots = count;
    nullRows = null;
    if (listLevel == NO_LIST) {
      rows = count;
    } else {
      starts = room(starts, count + 1);
      if (full) {
        rows = repetition.zeros(starts, count);
        starts[rows] = count;
      } else {
        repetitions = room(repetitions, count);
        repetition.decode(repetitions, count);
        slots = lists(count);
      }
    }
    if (full) {
      nullSlots = null;
      decode(encoding, bytes, count, slots);
    } else {
      decodeAround(encoding, bytes, count, slots);
    }
  }

  /** A page of nulls only, as vectors have many that are all dense. */
  private void readNone(int count) {
    rows = count;
    if (none.length < count) {
      none = new boolean[count];
      Arrays.fill(none, true);
    }
    nullSlots = listLevel == NO_LIST ? none : null;
    nullRows = listLevel == NO_LIST ? null : none;
    starts = room(starts, count + 1);
    Arrays.fill(starts, 0, count + 1, 0);
    values = new byte[0];
    base = 0;
  }

  /** Finds rows and slots where null and empty lists have a level and no element. */
  private int lists(int count) {
    int found = 0;
    int slots = 0;
    boolean[] missing = new boolean[count];
    boolean anyMissing = false;
    for (int i = 0; i < count; i++) {
      if (repetitions[i] == 0) {
        missing[found] = definitions[i] < listLevel;
        anyMissing |= missing[found];
        starts[found++] = slots;
      }
      if (definitions[i] > listLevel) {
        // levels of slots move to the front
        definitions[slots++] = definitions[i];
      }
    }
    starts[found] = slots;
    rows = found;
    nullRows = anyMissing ? missing : null;
    return slots;
  }

  /** Decodes the values that are there, and moves them to their slots. */
  private void decodeAround(Encoding encoding, ByteBuffer bytes, int count, int slots)
      throws IOException {
    int max = column.getMaxDefinitionLevel();
    boolean[] missing = new boolean[slots];
    int present = 0;
    for (int i = 0; i < slots; i++) {
      missing[i] = definitions[i] < max;
      present += missing[i] ? 0 : 1;
    }
    decode(encoding, bytes, count, present);
    nullSlots = present < slots ? missing : null;
    if (present < slots) {
      byte[] apart = new byte[slots * width];
      int from = base;
      for (int i = 0; i < slots; i++) {
        if (!missing[i]) {
          System.arraycopy(values, from, apart, i * width, width);
          from += width;
        }
      }
      values = apart;
      base = 0;
    }
  }

  /** Makes {@link #values} hold the page's values, one after the other. */
  private void decode(Encoding encoding, ByteBuffer bytes, int count, int present)
      throws IOException {
    boolean isBits = width == 1;
    if (encoding == Encoding.PLAIN && !isBits) {
      if (bytes.remaining() < present * width) {
        throw new IOException(
            "a page has %d bytes for %d values".formatted(bytes.remaining(), present));
      }
      values = bytes.array();
      base = bytes.arrayOffset() + bytes.position();
      return;
    }
    if (expanded.length < present * width) {
      expanded = new byte[present * width];
    }
    if (encoding.usesDictionary() && !isBits) {
      lookUp(bytes, present);
    } else if (present > 0) {
      ValuesReader reader = encoding.getValuesReader(column, ValuesType.VALUES);
      reader.initFromPage(count, ByteBufferInputStream.wrap(bytes.slice()));
      copy(reader, present);
    }
    values = expanded;
    base = 0;
  }

  private void lookUp(ByteBuffer bytes, int present) {
    if (present == 0) {
      return;
    }
    int bits = bytes.get();
    indices = room(indices, present);
    int start = bytes.arrayOffset() + bytes.position();
    new HybridRuns(bytes.array(), start, start + bytes.remaining(), bits).decode(indices, present);
    if (width == Integer.BYTES) {
      for (int i = 0; i < present; i++) {
        Bytes.putInt(
            expanded, i * Integer.BYTES, Bytes.getInt(dictionary, indices[i] * Integer.BYTES));
      }
    } else {
      for (int i = 0; i < present; i++) {
        Bytes.putLong(expanded, i * Long.BYTES, Bytes.getLong(dictionary, indices[i] * Long.BYTES));
      }
    }
  }

  private void copy(ValuesReader reader, int present) {
    for (int i = 0; i < present; i++) {
      int at = i * width;
      switch (column.getPrimitiveType().getPrimitiveTypeName()) {
        case BOOLEAN -> expanded[at] = (byte) (reader.readBoolean() ? 1 : 0);
        case INT32 -> Bytes.putInt(expanded, at, reader.readInteger());
        case INT64 -> Bytes.putLong(expanded, at, reader.readLong());
        case FLOAT -> Bytes.putFloat(expanded, at, reader.readFloat());
        default -> Bytes.putDouble(expanded, at, reader.readDouble());
      }
    }
  }

  private static int[] room(int[] array, int count) {
    return array.length >= count + HybridRuns.SLACK ? array : new int[count + HybridRuns.SLACK];
  }

  private static ByteBuffer onHeap(BytesInput input) throws IOException {
    ByteBufferInputStream stream = input.toInputStream();
    ByteBuffer bytes = stream.slice(stream.available());
    if (!bytes.hasArray()) {
      bytes = ByteBuffer.allocate(bytes.remaining()).put(bytes).flip();
    }
    return bytes.slice().order(ByteOrder.LITTLE_ENDIAN);
  }
}
