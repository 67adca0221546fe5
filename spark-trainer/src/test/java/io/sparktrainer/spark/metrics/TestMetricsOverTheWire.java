package io.sparktrainer.spark.metrics;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.engine.EpochMetrics;
import io.sparktrainer.engine.StepMetrics;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(value = 60, unit = TimeUnit.SECONDS)
class TestMetricsOverTheWire {
  private static final String HERE = "127.0.0.1";
  private final List<MetricRecord> received = Collections.synchronizedList(new ArrayList<>());

  @Test
  void recordsOfSeveralRanksArriveWhole() throws Exception {
    try (MetricsServer server = MetricsServer.start(HERE, HERE, 0, received::add)) {
      for (int rank = 0; rank < 2; rank++) {
        try (MetricsClient client = new MetricsClient(server.address())) {
          for (int step = 0; step < 100; step++) {
            client.accept(step(rank, step));
          }
          client.accept(epoch());
        }
      }
    }
    assertThat(received).hasSize(202).contains(step(0, 0), step(1, 99), epoch());
  }

  @Test
  void whoDoesNotKnowTheTokenIsNotHeard() throws Exception {
    try (MetricsServer server = MetricsServer.start(HERE, HERE, 0, received::add)) {
      try (Socket stranger = new Socket(InetAddress.getLoopbackAddress(), server.address().port());
          PrintWriter out =
              new PrintWriter(stranger.getOutputStream(), true, StandardCharsets.UTF_8)) {
        out.println("guess");
        // The server closes the connection.
        assertThat(stranger.getInputStream().read()).isEqualTo(-1);
        out.println(step(0, 0).toJson());
      }
      assertThat(server.address().toString()).doesNotContain(server.address().token());
    }
    assertThat(received).isEmpty();
  }

  @Test
  void aDriverOutOfReachDoesNotHoldUpTheRank() throws Exception {
    int freePort;
    try (ServerSocket socket = new ServerSocket(0)) {
      freePort = socket.getLocalPort();
    }
    try (MetricsClient client = new MetricsClient(new MetricsAddress(HERE, freePort, "t"))) {
      for (int step = 0; step < 20_000; step++) {
        client.accept(step(0, step));
      }
    }
  }

  @Test
  void recordsReadBackAsWritten() {
    assertThat(MetricRecord.parse(step(1, 7).toJson())).isEqualTo(step(1, 7));
    assertThat(MetricRecord.parse(epoch().toJson())).isEqualTo(epoch());
    MetricRecord start = new MetricRecord.Start(100, 10, 7, 21);
    assertThat(MetricRecord.parse(start.toJson())).isEqualTo(start);
    MetricRecord memory =
        new MetricRecord.Memory(new DeviceMemory(1, 2, "cuda:3", 6L << 30, 24L << 30));
    assertThat(MetricRecord.parse(memory.toJson())).isEqualTo(memory);
    assertThat(memory.toJson()).contains("\"share\":0.25");
    assertThat(epoch().toJson()).contains("\"samplesPerSecond\":50.0");
    assertThatThrownBy(() -> MetricRecord.parse("[]"))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessage("Cannot read a metric record, got: []");
  }

  private static MetricRecord step(int rank, int step) {
    return new MetricRecord.Step(rank, new StepMetrics(0, step, 100, 0.5, 1e-3, null, 16, 0.25));
  }

  private static MetricRecord epoch() {
    return new MetricRecord.Epoch(new EpochMetrics(0, 0.25, 0.9, 0.5, null, 100, 2));
  }
}
