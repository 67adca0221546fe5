package io.sparktrainer.data;

import java.io.Serializable;

/**
 * How an image becomes a tensor: decoded, scaled to a fixed size (bilinear), and laid out as {@code
 * [channels, height, width]} with channels in the order red, green, blue (and alpha).
 *
 * @param height rows of pixels
 * @param width columns of pixels
 * @param channels 1 (grey, by the luma weights of ITU-R BT.601), 3 (RGB) or 4 (RGBA)
 * @param range the range of the values
 */
public record ImageSpec(int height, int width, int channels, Range range) implements Serializable {
  /** The range of pixel values in the tensor. */
  public enum Range {
    /** 0 to 255, as in the file. */
    BYTE,
    /** 0 to 1. */
    UNIT
  }

  public ImageSpec {
    if (height < 1 || width < 1 || (channels != 1 && channels != 3 && channels != 4)) {
      throw new IllegalArgumentException(
          ("Cannot read images: expected a size of at least 1x1 and 1, 3 or 4 channels, got"
                  + " %dx%d with %d channels.")
              .formatted(height, width, channels));
    }
  }
}
