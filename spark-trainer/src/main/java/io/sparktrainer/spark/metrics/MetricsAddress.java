package io.sparktrainer.spark.metrics;

import java.io.Serializable;

/**
 * Where ranks send their figures.
 *
 * @param host the driver's address
 * @param port its listener's port
 * @param token what a sender has to show first
 */
public record MetricsAddress(String host, int port, String token) implements Serializable {
  /** Without the token. */
  @Override
  public String toString() {
    return host + ":" + port;
  }
}
