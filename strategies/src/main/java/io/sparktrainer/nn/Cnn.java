package io.sparktrainer.nn;

import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * A small convolutional network for images: two 3x3 convolutions, each with batch normalisation,
 * ReLU and 2x2 max pooling, then two linear layers.
 *
 * <p>Input [n, channels, height, width] float; output [n, out].
 */
public final class Cnn extends Block {
  private static final int SMALLEST_SIDE = 8;

  private final Conv2d conv1;
  private final BatchNorm2d bn1;
  private final Conv2d conv2;
  private final BatchNorm2d bn2;
  private final Linear fc1;
  private final Linear fc2;

  /**
   * @param channels channels of the image
   * @param height rows of the image, at least 8
   * @param width columns of the image, at least 8
   * @param filters channels after the first convolution; the second has twice as many
   * @param out outputs per image
   */
  public Cnn(int channels, int height, int width, int filters, int out) {
    if (channels < 1 || filters < 1 || out < 1 || Math.min(height, width) < SMALLEST_SIDE) {
      throw new IllegalArgumentException(
          "Cannot make a cnn: expected at least 1 channel, 1 filter, 1 output and 8x8 pixels, got"
              + " %d channels, %d filters, %d outputs and %dx%d pixels."
                  .formatted(channels, filters, out, height, width));
    }
    this.conv1 = child("conv1", new Conv2d(channels, filters, 3, 1, 1));
    this.bn1 = child("bn1", new BatchNorm2d(filters));
    this.conv2 = child("conv2", new Conv2d(filters, 2L * filters, 3, 1, 1));
    this.bn2 = child("bn2", new BatchNorm2d(2L * filters));
    this.fc1 = child("fc1", new Linear(2L * filters * (height / 4) * (width / 4), 64));
    this.fc2 = child("fc2", new Linear(64, out));
  }

  @Override
  protected Tensor forward(Tensor... inputs) {
    Tensor x = torch.max_pool2d(torch.relu(bn1.call(conv1.call(inputs[0]))), 2, 2);
    x = torch.max_pool2d(torch.relu(bn2.call(conv2.call(x))), 2, 2);
    return fc2.call(torch.relu(fc1.call(x.flatten(1, -1))));
  }
}
