package io.sparktrainer.data;

import java.awt.image.BufferedImage;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import javax.imageio.ImageIO;
import org.jspecify.annotations.Nullable;

/** Turns encoded and raw images into {@code [channels, height, width]}. */
final class Images {
  private static final int BYTE_MASK = 0xff;
  private static final float WHITE = 255;
  // luma weights of ITU-R BT.601
  private static final float RED = 0.299f;
  private static final float GREEN = 0.587f;
  private static final float BLUE = 0.114f;

  static {
    // decoders would otherwise write each image to a temporary file first
    ImageIO.setUseCache(false);
  }

  private Images() {}

  /** Decodes PNG, JPEG, GIF, BMP or whatever else ImageIO has readers for. */
  static boolean decode(ColumnPlan column, byte[] file, byte[] record, int base, RowPlace place) {
    BufferedImage image;
    String why = "no decoder knows its format";
    try {
      image = ImageIO.read(new ByteArrayInputStream(file));
    } catch (IOException | RuntimeException e) {
      image = null;
      why = String.valueOf(e.getMessage());
    }
    if (image == null) {
      throw new IllegalArgumentException(
          "Cannot decode column '%s': expected an image, got %d bytes in %s (%s)."
              .formatted(column.column(), file.length, place, why));
    }
    int height = image.getHeight();
    int width = image.getWidth();
    int[] argb = image.getRGB(0, 0, width, height, null, 0, width);
    float[][] planes = new float[4][height * width];
    for (int i = 0; i < argb.length; i++) {
      planes[0][i] = argb[i] >>> 16 & BYTE_MASK;
      planes[1][i] = argb[i] >>> 8 & BYTE_MASK;
      planes[2][i] = argb[i] & BYTE_MASK;
      planes[3][i] = argb[i] >>> 24;
    }
    write(column, planes, height, width, record, base, place);
    return true;
  }

  /** Reads the bytes of Spark's image struct: interleaved grey, BGR or BGRA. */
  static void raw(
      ColumnPlan column,
      int height,
      int width,
      int channels,
      byte @Nullable [] data,
      byte[] record,
      int base,
      RowPlace place) {
    boolean known = channels == 1 || channels == 3 || channels == 4;
    if (!known || data == null || height < 1 || data.length != (long) height * width * channels) {
      throw new IllegalArgumentException(
          "Cannot read image column '%s': expected 1, 3 or 4 channels of bytes, got %dx%dx%d with %d bytes in %s."
              .formatted(
                  column.column(), height, width, channels, data == null ? 0 : data.length, place));
    }
    float[][] planes = new float[4][height * width];
    for (int i = 0; i < height * width; i++) {
      int at = i * channels;
      planes[0][i] = data[at + (channels == 1 ? 0 : 2)] & BYTE_MASK;
      planes[1][i] = data[at + (channels == 1 ? 0 : 1)] & BYTE_MASK;
      planes[2][i] = data[at] & BYTE_MASK;
      planes[3][i] = channels == 4 ? data[at + 3] & BYTE_MASK : WHITE;
    }
    write(column, planes, height, width, record, base, place);
  }

  private static void write(
      ColumnPlan column,
      float[][] rgba,
      int height,
      int width,
      byte[] record,
      int base,
      RowPlace place) {
    ImageSpec spec = column.image();
    if (spec == null) {
      throw new IllegalStateException("an image column without an image spec");
    }
    if (spec.channels() == 1) {
      for (int i = 0; i < height * width; i++) {
        rgba[0][i] = RED * rgba[0][i] + GREEN * rgba[1][i] + BLUE * rgba[2][i];
      }
    }
    int pixels = spec.height() * spec.width();
    boolean whole = !column.target().isFloating();
    for (int channel = 0; channel < spec.channels(); channel++) {
      float[] plane = resize(rgba[channel], height, width, spec.height(), spec.width());
      int at = base + column.offset() + channel * pixels * column.target().bytes();
      for (int i = 0; i < pixels; i++, at += column.target().bytes()) {
        float value = spec.range() == ImageSpec.Range.UNIT ? plane[i] / WHITE : plane[i];
        column.put(record, at, whole ? Math.round(value) : (double) value, place);
      }
    }
  }

  /** Bilinear, with the filter widened when it shrinks the image, so that no pixel is skipped. */
  static float[] resize(float[] from, int height, int width, int newHeight, int newWidth) {
    float[] rows = resample(from, height, width, newWidth);
    return transpose(
        resample(transpose(rows, height, newWidth), newWidth, height, newHeight),
        newWidth,
        newHeight);
  }

  /** Resamples each of {@code lines} lines from {@code length} to {@code newLength} values. */
  private static float[] resample(float[] from, int lines, int length, int newLength) {
    if (length == newLength) {
      return from;
    }
    float[] to = new float[lines * newLength];
    double scale = (double) length / newLength;
    double support = Math.max(1, scale);
    for (int x = 0; x < newLength; x++) {
      double center = (x + 0.5) * scale;
      int first = (int) Math.max(0, Math.floor(center - support));
      int last = (int) Math.min(length, Math.ceil(center + support));
      double sum = 0;
      double[] weights = new double[last - first];
      for (int i = first; i < last; i++) {
        weights[i - first] = Math.max(0, 1 - Math.abs((i + 0.5 - center) / support));
        sum += weights[i - first];
      }
      for (int line = 0; line < lines; line++) {
        double value = 0;
        for (int i = first; i < last; i++) {
          value += weights[i - first] * from[line * length + i];
        }
        to[line * newLength + x] = (float) (value / sum);
      }
    }
    return to;
  }

  private static float[] transpose(float[] from, int height, int width) {
    float[] to = new float[from.length];
    for (int y = 0; y < height; y++) {
      for (int x = 0; x < width; x++) {
        to[x * height + y] = from[y * width + x];
      }
    }
    return to;
  }
}
