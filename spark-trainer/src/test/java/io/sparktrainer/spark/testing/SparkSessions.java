package io.sparktrainer.spark.testing;

import io.sparktrainer.spark.EmbeddedSpark;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.StoreScope;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/** The sessions behind {@link SparkTest}. */
public final class SparkSessions implements ParameterResolver {
  private static final ExtensionContext.Namespace NAMESPACE =
      ExtensionContext.Namespace.create(SparkSessions.class);

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    return parameter.getParameter().getType() == SparkSession.class;
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    SparkTest wanted = context.getRequiredTestClass().getAnnotation(SparkTest.class);
    // Of the whole JVM: with several forks every class is a run of its own.
    return context
        .getStore(StoreScope.LAUNCHER_SESSION, NAMESPACE)
        .getOrComputeIfAbsent(Current.class, key -> new Current(), Current.class)
        .session(wanted);
  }

  /** The JVM's one session. */
  private static final class Current implements AutoCloseable {
    private @Nullable SparkSession session;
    private String description = "";

    synchronized SparkSession session(SparkTest test) {
      String wanted = test.master() + Arrays.toString(test.conf()) + test.options().getName();
      SparkSession running = session;
      if (running != null && wanted.equals(description) && !running.sparkContext().isStopped()) {
        return running;
      }
      close();
      session = start(test);
      description = wanted;
      return session;
    }

    private static SparkSession start(SparkTest test) {
      String master = test.master();
      SparkSession.Builder builder =
          SparkSession.builder()
              .master(master)
              .appName("test")
              .config("spark.ui.enabled", "false")
              .config("spark.driver.host", "127.0.0.1")
              // A busy build machine may take long to start a JVM.
              .config("spark.sparktrainer.slotWaitSeconds", "120")
              .config("spark.sql.shuffle.partitions", "2");
      if (master.startsWith("local-cluster")) {
        executorClassPath(builder);
      }
      for (String option : test.conf()) {
        String[] keyAndValue = option.split("=", 2);
        builder.config(keyAndValue[0], keyAndValue[1]);
      }
      options(test).forEach(builder::config);
      return builder.getOrCreate();
    }

    private static Map<String, String> options(SparkTest test) {
      try {
        var constructor = test.options().getDeclaredConstructor();
        constructor.setAccessible(true);
        return constructor.newInstance().options();
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException("Cannot make " + test.options().getName() + ".", e);
      }
    }

    /** Executor processes start from the folder that the build names in SPARK_HOME. */
    private static void executorClassPath(SparkSession.Builder builder) {
      String home = System.getenv("SPARK_HOME");
      if (home == null) {
        throw new IllegalStateException(
            "Cannot start executors: expected SPARK_HOME, which the build sets for tests.");
      }
      try {
        EmbeddedSpark.prepare(Path.of(home)).forEach(builder::config);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    @Override
    public synchronized void close() {
      if (session != null) {
        session.stop();
        session = null;
      }
    }
  }
}
