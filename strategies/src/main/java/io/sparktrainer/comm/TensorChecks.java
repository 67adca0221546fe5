package io.sparktrainer.comm;

import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.Tensors;
import org.bytedeco.pytorch.Tensor;

/**
 * What a tensor has to be before native code sees it: past here a mistake can end the JVM.
 *
 * @param device where tensors have to be
 * @param backend who moves them, for messages
 */
record TensorChecks(Device device, String backend) {

  /** Element type of {@code tensor}, which {@code verb} is about to move between ranks. */
  DType requireMovable(String verb, Tensor tensor) {
    if (tensor.isNull() || !tensor.defined()) {
      throw new IllegalArgumentException(
          "Cannot " + verb + " a tensor: expected a defined one, got none.");
    }
    if (tensor.is_sparse() || !isHere(tensor) || !tensor.is_contiguous()) {
      throw new IllegalArgumentException(
          "Cannot "
              + verb
              + " a tensor: expected a dense, contiguous one on "
              + (device.isCuda() ? device : "the CPU")
              + ", got "
              + (tensor.is_sparse() ? "a sparse one" : Tensors.describe(tensor))
              + ". Hand in tensor."
              + (device.isCuda() ? "cuda" : "cpu")
              + "().contiguous().");
    }
    DType dtype = DType.of(tensor);
    if (dtype == DType.INT16) {
      throw new IllegalArgumentException(
          "Cannot "
              + verb
              + " a tensor: "
              + backend
              + " has no int16, got "
              + Tensors.describe(tensor)
              + ".");
    }
    return dtype;
  }

  private boolean isHere(Tensor tensor) {
    return !tensor.is_meta() && Device.of(tensor).equals(device);
  }

  /** The same, for a tensor that is reduced by {@code op}. */
  DType requireReducible(String verb, Tensor tensor, ReduceOp op) {
    DType dtype = requireMovable(verb, tensor);
    if (op == ReduceOp.AVG && !dtype.isFloatingPoint()) {
      throw new IllegalArgumentException(
          "Cannot average integers: expected a floating-point tensor, got "
              + Tensors.describe(tensor)
              + ". Use SUM.");
    }
    if (dtype == DType.BOOL) {
      throw new IllegalArgumentException(
          "Cannot "
              + verb
              + " booleans: expected numbers, got "
              + Tensors.describe(tensor)
              + ". Reduce uint8 with MAX for 'any' and MIN for 'all'.");
    }
    return dtype;
  }

  static void requireSameType(String verb, Tensor output, Tensor input) {
    if (DType.of(output) != DType.of(input)) {
      throw new IllegalArgumentException(
          "Cannot %s: expected output and input of one element type, got output %s and input %s."
              .formatted(verb, Tensors.describe(output), Tensors.describe(input)));
    }
  }

  /** {@code whole} has {@code worldSize} times the elements of {@code piece}. */
  static void requirePieces(
      String verb, Tensor whole, String wholeName, Tensor piece, String pieceName, int worldSize) {
    if (whole.numel() != piece.numel() * worldSize) {
      throw new IllegalArgumentException(
          "Cannot %s: expected %s of %d x the elements of %s (world size %d), got %s %s and %s %s."
              .formatted(
                  verb,
                  wholeName,
                  worldSize,
                  pieceName,
                  worldSize,
                  wholeName,
                  Tensors.describe(whole),
                  pieceName,
                  Tensors.describe(piece)));
    }
  }
}
