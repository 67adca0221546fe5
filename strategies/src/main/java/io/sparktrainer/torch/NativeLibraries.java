package io.sparktrainer.torch;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.bytedeco.javacpp.Loader;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Loads libtorch once per JVM.
 *
 * <p>Before the first load it chooses MKL as the BLAS where the MKL jars are on the class path (two
 * or more threads run about five times faster on it than on OpenBLAS), and takes a file lock on
 * JavaCPP's cache folder while that is cold: executors on one host that extract it at the same time
 * can crash each other.
 */
public final class NativeLibraries {
  private static final Logger LOG = LoggerFactory.getLogger(NativeLibraries.class);
  private static final String BLAS_PROPERTY = "org.bytedeco.openblas.load";

  private static volatile boolean loaded;
  private static @Nullable String failure;

  private NativeLibraries() {}

  /**
   * Loads libtorch if this JVM has not done so yet.
   *
   * @throws NativeLibraryException if it cannot be loaded, now or at an earlier call
   */
  public static void load() {
    if (!loaded) {
      loadOnce();
    }
  }

  private static synchronized void loadOnce() {
    if (loaded) {
      return;
    }
    if (failure != null) {
      throw new NativeLibraryException(failure, null);
    }
    configure();
    try {
      loadAlone();
    } catch (LinkageError | RuntimeException | IOException e) {
      failure = message(e);
      throw new NativeLibraryException(failure, e);
    }
    loaded = true;
  }

  private static void configure() {
    // JavaCPP refuses allocations once the process is larger than twice the heap; tensors live
    // outside the heap, so that limit has no meaning here.
    setIfAbsent("org.bytedeco.javacpp.maxPhysicalBytes", "0");
    setIfAbsent("org.bytedeco.javacpp.maxBytes", "0");
    if (mklOnClassPath()) {
      setIfAbsent(BLAS_PROPERTY, "mkl");
    }
  }

  private static void setIfAbsent(String key, String value) {
    if (System.getProperty(key) == null) {
      System.setProperty(key, value);
    }
  }

  private static boolean mklOnClassPath() {
    ClassLoader loader = NativeLibraries.class.getClassLoader();
    return loader.getResource("org/bytedeco/mkl/linux-x86_64/libmkl_rt.so.2") != null
        || loader.getResource("org/bytedeco/mkl/windows-x86_64/mkl_rt.2.dll") != null;
  }

  private static void loadAlone() throws IOException {
    long start = System.nanoTime();
    Path cache = Loader.getCacheDir().toPath();
    Files.createDirectories(cache);
    Path extracted = cache.resolve(".spark-trainer-extracted-" + jarsFingerprint());
    if (Files.exists(extracted)) {
      loadClasses();
    } else {
      extract(cache, extracted);
    }
    LOG.debug("Loaded libtorch in {} ms", (System.nanoTime() - start) / 1_000_000);
  }

  /** Only the first load of these jars on a machine: a warm cache is read by many JVMs at once. */
  private static void extract(Path cache, Path extracted) throws IOException {
    try (var channel =
            FileChannel.open(
                cache.resolve(".spark-trainer.lock"),
                StandardOpenOption.CREATE,
                StandardOpenOption.WRITE);
        var lock = channel.lock()) {
      loadClasses();
      Files.write(extracted, new byte[0]);
    }
  }

  private static void loadClasses() {
    Loader.load(org.bytedeco.pytorch.global.torch.class);
    Blas.prepare();
  }

  private static String jarsFingerprint() {
    ClassLoader loader = NativeLibraries.class.getClassLoader();
    String platform = Loader.getPlatform();
    String jars =
        loader.getResource("org/bytedeco/pytorch/" + platform + "/libtorch_cpu.so")
            + " "
            + loader.getResource("org/bytedeco/openblas/" + platform + "/libjniopenblas.so")
            + " "
            + System.getProperty(BLAS_PROPERTY);
    return Integer.toHexString(jars.hashCode());
  }

  private static String message(Throwable cause) {
    return "Cannot load libtorch: expected native libraries for platform "
        + platform()
        + " on the class path or in "
        + System.getProperty("org.bytedeco.javacpp.cachedir", "~/.javacpp/cache")
        + ", got "
        + cause
        + ". Add org.bytedeco:pytorch with the classifier of this platform to the application's"
        + " jars on the driver and the executors, and check that the cache folder is writable."
        + NativeLibraryException.ONCE;
  }

  private static String platform() {
    try {
      return Loader.getPlatform();
    } catch (LinkageError | RuntimeException e) {
      return System.getProperty("os.name") + "-" + System.getProperty("os.arch");
    }
  }
}
