package io.sparktrainer.spark.testing;

import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.Map;
import org.junit.jupiter.api.extension.ExtendWith;

/**
 * Gives the tests of a class a {@code SparkSession} as parameter.
 *
 * <p>{@code local[n]} runs ranks as threads of the test's JVM; {@code local-cluster[n,c,m]} runs
 * them in n executor processes of c cores and m MiB. Classes that ask for the same share one
 * session; a class that asks for another one ends the one before, as a JVM can have only one.
 */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Inherited
@ExtendWith(SparkSessions.class)
public @interface SparkTest {
  /** Spark's master. */
  String master() default "local[2]";

  /** Options of Spark, as {@code key=value}. */
  String[] conf() default {};

  /** More options, which have to be worked out. */
  Class<? extends Options> options() default NoOptions.class;

  /** Works out options of Spark; has a constructor without arguments. */
  interface Options {
    /** Options and values. */
    Map<String, String> options();
  }

  /** None. */
  final class NoOptions implements Options {
    @Override
    public Map<String, String> options() {
      return Map.of();
    }
  }
}
