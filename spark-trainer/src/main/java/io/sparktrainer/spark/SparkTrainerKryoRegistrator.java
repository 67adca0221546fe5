package io.sparktrainer.spark;

import com.esotericsoftware.kryo.Kryo;
import org.apache.spark.serializer.KryoRegistrator;

/**
 * Registers with Kryo what a training sends between driver and executors, for sessions with {@code
 * spark.kryo.registrationRequired=true}: set {@code spark.kryo.registrator} to this class's name.
 */
public final class SparkTrainerKryoRegistrator implements KryoRegistrator {
  @Override
  public void registerClasses(Kryo kryo) {
    // Everything else is a text, an array of bytes or Spark's own.
    kryo.register(String[].class);
    kryo.register(byte[][].class);
  }
}
