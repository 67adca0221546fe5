package io.sparktrainer.torch;

import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Owns every native object created on this thread while it is open and frees them on {@link
 * #close()}. Scopes nest; each thread has its own stack, so a callback that runs on another thread
 * opens its own.
 *
 * <p>What has to outlive the scope leaves it by {@link #keep} (the caller closes it) or {@link
 * #pass} (the next outer scope owns it).
 */
public final class NativeScope implements AutoCloseable {
  private final PointerScope scope;
  private final @Nullable PointerScope outer;

  private NativeScope() {
    var enclosing = PointerScope.getScopeIterator();
    this.outer = enclosing.hasNext() ? enclosing.next() : null;
    this.scope = new PointerScope();
  }

  /** Opens a scope on the calling thread; it must be closed on the same thread. */
  public static NativeScope open() {
    NativeLibraries.load();
    return new NativeScope();
  }

  /**
   * Lets {@code pointer} outlive every scope that is open now.
   *
   * @return the same pointer, which lives until its {@code close()} is called
   */
  public static <P extends Pointer> P keep(P pointer) {
    // A count of our own beside the scope's: closing the scope then only gives back the scope's.
    return pointer.retainReference();
  }

  /**
   * Lets {@code tensor} outlive this scope; the next outer scope owns it, or, where there is none,
   * the caller, who closes it.
   *
   * @return {@code tensor}, or an owning handle to the same tensor where {@code tensor} is only an
   *     alias, as JavaCPP returns from in-place operations
   */
  public Tensor pass(Tensor tensor) {
    Tensor owned = tensor.referenceCount() < 0 ? new Tensor(tensor) : tensor;
    if (outer == null) {
      return keep(owned);
    }
    outer.attach(owned);
    return owned;
  }

  @Override
  public void close() {
    scope.close();
  }
}
