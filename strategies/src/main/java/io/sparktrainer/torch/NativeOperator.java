package io.sparktrainer.torch;

import java.util.Collection;
import org.bytedeco.pytorch.Dispatcher;
import org.bytedeco.pytorch.IValue;
import org.bytedeco.pytorch.IValueVector;
import org.bytedeco.pytorch.OperatorHandle;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorList;
import org.bytedeco.pytorch.TensorVector;
import org.jspecify.annotations.Nullable;

/**
 * One of libtorch's operators by its schema name, for those that the bindings do not map: the fused
 * optimizer kernels and the ones over lists of tensors. Calls go through libtorch's dispatcher.
 *
 * <p>Arguments are given in the order of the schema, defaults included. libtorch checks their
 * number and types, and a mismatch is a {@link RuntimeException}.
 */
public final class NativeOperator {
  private final String name;
  private final OperatorHandle handle;

  private NativeOperator(String name, OperatorHandle handle) {
    this.name = name;
    this.handle = handle;
  }

  /**
   * Looks up {@code name} with {@code overload} (empty for the operator without one).
   *
   * @throws RuntimeException if libtorch has no such operator
   */
  public static NativeOperator find(String name, String overload) {
    try (var scope = NativeScope.open()) {
      return new NativeOperator(
          name,
          NativeScope.keep(
              new OperatorHandle(Dispatcher.singleton().findSchemaOrThrow(name, overload))));
    }
  }

  /** Starts a call; arguments follow in the schema's order. */
  public Call call() {
    return new Call(handle);
  }

  @Override
  public String toString() {
    return name;
  }

  /**
   * A list of tensors as an argument, for use in several calls, owned by the current scope.
   *
   * <p>The bindings have no constructor for it ({@code new IValue(new TensorVector())} binds to the
   * one that takes any pointer, and ends the JVM), so an operator that returns a list makes an
   * empty one, which is then filled.
   */
  public static IValue list(Collection<Tensor> tensors) {
    IValueVector stack = new IValueVector();
    try (var scope = NativeScope.open()) {
      stack.push_back(new IValue(Tensors.empty(DType.FLOAT32, Device.CPU, 0)));
      stack.push_back(new IValue(0L));
      Unbind.OPERATOR.handle.callBoxed(stack);
      TensorList list = stack.get(0).toTensorList();
      list.reserve(tensors.size());
      for (Tensor tensor : tensors) {
        list.push_back(tensor);
      }
    }
    return new IValue(stack.get(0));
  }

  private static final class Unbind {
    static final NativeOperator OPERATOR = find("aten::unbind", "int");
  }

  /** Arguments of one call. */
  public static final class Call {
    private final OperatorHandle handle;
    private final IValueVector stack = new IValueVector();

    private Call(OperatorHandle handle) {
      this.handle = handle;
    }

    public Call with(IValue value) {
      stack.push_back(value);
      return this;
    }

    public Call with(Collection<Tensor> tensors) {
      return with(list(tensors));
    }

    /** A tensor, or nothing for an optional argument. */
    public Call with(@Nullable Tensor tensor) {
      return with(tensor == null ? new IValue() : new IValue(tensor));
    }

    public Call with(double value) {
      return with(new IValue(value));
    }

    public Call with(long value) {
      return with(new IValue(value));
    }

    public Call with(boolean value) {
      return with(new IValue(value));
    }

    /** An argument that the schema calls {@code Scalar}. */
    public Call withScalar(double value) {
      return with(new IValue(new Scalar(value)));
    }

    /** An argument that the schema calls {@code ScalarType}. */
    public Call with(DType dtype) {
      return with((long) dtype.scalarType().intern().value);
    }

    /** Nothing, for an optional argument. */
    public Call none() {
      return with(new IValue());
    }

    /** Runs an operator that returns nothing, or whose result is one of its arguments. */
    public void run() {
      handle.callBoxed(stack);
    }

    /** Runs an operator that returns a list of tensors. */
    public TensorVector runForTensors() {
      handle.callBoxed(stack);
      return stack.get(0).toTensorVector();
    }
  }
}
