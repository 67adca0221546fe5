package io.sparktrainer.torch;

import org.bytedeco.javacpp.Loader;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.openblas.global.openblas_nolapack;
import org.bytedeco.openblas.presets.openblas_nolapack.MklSetNumThreadsLocal;
import org.bytedeco.openblas.presets.openblas_nolapack.SetNumThreads;
import org.bytedeco.pytorch.global.torch;
import org.jspecify.annotations.Nullable;

/**
 * The thread count of the BLAS that JavaCPP chose at run time, which libtorch's own call does not
 * reach.
 *
 * <p>JavaCPP's {@code blas_set_num_threads} looks the functions up in every call, with the dynamic
 * linker's locks taken in the order opposite to that of opening a library. A rank that does so
 * while another thread opens one (MKL opens its threading layer when it is first used) deadlocks,
 * and the whole JVM with it at the next safepoint. So they are looked up once, while libtorch is
 * being loaded, and MKL is made to open its libraries then.
 */
final class Blas {
  private static @Nullable All openBlas;
  private static @Nullable All mkl;
  private static @Nullable OfThread mklOfThread;

  private Blas() {}

  /** Called once, under the lock that guards the loading of libraries. */
  static void prepare() {
    Loader.load(openblas_nolapack.class);
    Pointer address = Loader.addressof("MKL_Set_Num_Threads");
    if (address != null) {
      mkl = new All(address);
    }
    address = Loader.addressof("MKL_Set_Num_Threads_Local");
    if (address != null) {
      mklOfThread = new OfThread(address);
    }
    address = Loader.addressof("openblas_set_num_threads");
    if (address != null) {
      openBlas = new All(address);
    }
    use(torch.get_num_threads());
  }

  static void use(int count) {
    if (openBlas != null) {
      openBlas.call(count);
    }
    if (mkl != null) {
      mkl.call(count);
    }
    if (mklOfThread != null) {
      mklOfThread.call(count);
    }
  }

  /** A function that sets the count for the whole process. */
  private static final class All extends SetNumThreads {
    All(Pointer address) {
      put(address);
      NativeScope.keep(this);
    }
  }

  /** A function that sets the count for the calling thread. */
  private static final class OfThread extends MklSetNumThreadsLocal {
    OfThread(Pointer address) {
      put(address);
      NativeScope.keep(this);
    }
  }
}
