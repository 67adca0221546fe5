package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.testing.Memory;
import io.sparktrainer.testing.Values;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class TestTensors {
  private NativeScope scope;

  @BeforeEach
  void open() {
    scope = NativeScope.open();
  }

  @AfterEach
  void close() {
    scope.close();
  }

  @Test
  void copiesArraysOfAnyShape() {
    Tensor matrix = Tensors.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3);
    assertThat(Tensors.describe(matrix)).isEqualTo("float32[2, 3] on cpu");
    assertThat(Tensors.toFloats(matrix)).containsExactly(1, 2, 3, 4, 5, 6);
    assertThat(Tensors.toFloats(matrix.t())).containsExactly(1, 4, 2, 5, 3, 6);
    assertThat(Tensors.describe(Tensors.of(new float[] {7}))).isEqualTo("float32[] on cpu");
    assertThat(Tensors.describe(Tensors.of(new long[0], 0, 4))).isEqualTo("int64[0, 4] on cpu");
    assertThat(Tensors.toLongs(Tensors.of(new long[] {Long.MAX_VALUE, -1}, 2)))
        .containsExactly(Long.MAX_VALUE, -1);
  }

  @Test
  void refusesArraysThatDoNotFit() {
    assertThatThrownBy(() -> Tensors.of(new float[] {1, 2, 3}, 2, 2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot make a tensor of shape [2, 2]: expected 4 values, got 3.");
    assertThatThrownBy(() -> Tensors.of(new long[] {1, 2}))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot make a tensor of shape []: expected 1 values, got 2.");
  }

  @Test
  void wrapsBuffersFromTheirPositionOn() {
    ByteBuffer buffer = ByteBuffer.allocateDirect(40).order(ByteOrder.nativeOrder());
    for (int i = 0; i < 10; i++) {
      buffer.putFloat(i);
    }
    buffer.position(8);
    Tensor wrapped = Tensors.wrap(buffer, DType.FLOAT32, 2, 2);
    assertThat(Tensors.toFloats(wrapped)).containsExactly(2, 3, 4, 5);
    buffer.putFloat(8, 99);
    assertThat(Tensors.toFloats(wrapped)).containsExactly(99, 3, 4, 5);
    buffer.position(0);
    assertThat(Tensors.toFloats(Tensors.wrap(buffer, DType.FLOAT32, 1))).containsExactly(0);
  }

  @Test
  void refusesBuffersThatCannotBeWrapped() {
    assertThatThrownBy(() -> Tensors.wrap(ByteBuffer.allocateDirect(15), DType.FLOAT32, 2, 2))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot wrap a buffer as a float32 tensor of shape [2, 2]: expected 16 bytes of direct memory, got 15.");
    assertThatThrownBy(() -> Tensors.wrap(ByteBuffer.allocate(16), DType.FLOAT32, 4))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot wrap a buffer as a float32 tensor of shape [4]: expected 16 bytes of direct memory, got 16 on the heap.");
  }

  @Test
  void showsATensorsMemoryAsBytes() {
    Tensor tensor = Tensors.of(new float[] {1, 2}, 2);
    ByteBuffer bytes = Tensors.bytes(tensor);
    assertThat(bytes.remaining()).isEqualTo(8);
    bytes.putFloat(4, 5);
    assertThat(Tensors.toFloats(tensor)).containsExactly(1, 5);
    // a view begins where its elements do
    assertThat(Tensors.bytes(tensor.narrow(0, 1, 1)).getFloat()).isEqualTo(5);
    assertThat(Tensors.bytes(Tensors.of(new float[0], 0)).remaining()).isZero();
    assertThatThrownBy(() -> Tensors.bytes(Tensors.of(new float[] {1, 2, 3, 4}, 2, 2).t()))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot view a tensor as bytes: expected a contiguous CPU tensor of less than 2 GiB, got float32[2, 2] on cpu (not contiguous).");
  }

  @Test
  void overwritingDoesNotDisturbAGraphThatSavedTheTensor() {
    Tensor weight = Tensors.of(new float[] {2}, 1).set_requires_grad(true);
    Tensor loss = weight.mul(weight).sum();
    Tensors.overwrite(weight, Tensors.of(new float[] {5}, 1));
    loss.backward();
    assertThat(Tensors.toFloats(weight.grad())).containsExactly(10);
    assertThat(weight.requires_grad()).isTrue();
  }

  @Test
  void setsAndClearsGradients() {
    Tensor weight = Tensors.of(new float[] {2}, 1).set_requires_grad(true);
    assertThat(weight.grad().defined()).isFalse();
    Tensors.setGrad(weight, Tensors.of(new float[] {3}, 1));
    assertThat(Tensors.toFloats(weight.grad())).containsExactly(3);
    Tensors.clearGrad(weight);
    assertThat(weight.grad().defined()).isFalse();
    assertThat(Tensors.describe(weight.grad())).isEqualTo("undefined");
  }

  @Test
  void clearingAGradientFreesItsMemory() {
    Tensor weight = Tensors.zeros(DType.FLOAT32, Device.CPU, 25_000).set_requires_grad(true);
    long growth =
        Memory.growth(
            2000,
            () -> {
              try (var inner = NativeScope.open()) {
                weight.sum().backward();
                Tensors.clearGrad(weight);
              }
            });
    assertThat(growth).isLessThan(20L << 20);
  }

  @Test
  void elementTypesKeepTheirSizesAndNames() {
    for (DType dtype : DType.values()) {
      Tensor tensor = Tensors.zeros(dtype, Device.CPU, 3);
      assertThat(DType.of(tensor)).isEqualTo(dtype);
      assertThat(tensor.element_size()).isEqualTo(dtype.bytes());
      assertThat(tensor.is_floating_point()).isEqualTo(dtype.isFloatingPoint());
      assertThat(Values.of(tensor)).containsExactly(0, 0, 0);
    }
    assertThat(DType.BFLOAT16).hasToString("bfloat16");
    Tensor complex =
        torch.empty(new long[] {1}, new TensorOptions(torch.ScalarType.ComplexDouble), null);
    assertThatThrownBy(() -> DType.of(complex))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage(
            "Cannot use element type ComplexDouble: expected one of float, integer and bool.");
  }

  @Test
  void devicesAreNamedAsPyTorchDoes() {
    assertThat(Device.CPU).hasToString("cpu");
    assertThat(Device.cuda(1)).hasToString("cuda:1");
    assertThat(Device.of(Tensors.of(new float[] {1}, 1))).isEqualTo(Device.CPU);
    assertThatThrownBy(() -> new Device(Device.Type.CPU, 1))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot use device CPU 1: expected CPU 0, or CUDA 0 and up.");
  }
}
