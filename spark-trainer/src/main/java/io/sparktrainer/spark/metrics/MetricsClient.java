package io.sparktrainer.spark.metrics;

import java.io.BufferedWriter;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A rank's way of sending figures to the driver. Never holds up or fails the training: records wait
 * in a queue for a thread of their own, and are dropped when the driver is out of reach or slow.
 */
public final class MetricsClient implements MetricSink, AutoCloseable {
  private static final Logger LOG = LoggerFactory.getLogger(MetricsClient.class);
  private static final int CONNECT_MILLIS = 5_000;
  private static final int CLOSE_MILLIS = 5_000;
  private static final int QUEUE_RECORDS = 4_096;
  private static final String END = "";

  private final MetricsAddress address;
  private final BlockingQueue<String> queue = new ArrayBlockingQueue<>(QUEUE_RECORDS);
  private final AtomicBoolean complained = new AtomicBoolean();
  private final Thread sender;
  private volatile boolean broken;

  /** Connects in the background. */
  public MetricsClient(MetricsAddress address) {
    this.address = address;
    this.sender = new Thread(this::sendAll, "metrics-sender");
    sender.setDaemon(true);
    sender.start();
  }

  @Override
  public void accept(MetricRecord record) {
    if (!broken && !queue.offer(record.toJson())) {
      complain("it takes records more slowly than they come");
    }
  }

  private void sendAll() {
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(address.host(), address.port()), CONNECT_MILLIS);
      BufferedWriter out =
          new BufferedWriter(
              new OutputStreamWriter(socket.getOutputStream(), StandardCharsets.UTF_8));
      out.write(address.token());
      out.newLine();
      String line = queue.take();
      while (!line.equals(END)) {
        out.write(line);
        out.newLine();
        String next = queue.poll();
        if (next == null) {
          out.flush();
          next = queue.take();
        }
        line = next;
      }
      out.flush();
    } catch (IOException e) {
      broken = true;
      queue.clear();
      complain(e.toString());
    } catch (InterruptedException e) {
      broken = true;
    }
  }

  private void complain(String reason) {
    if (complained.compareAndSet(false, true)) {
      LOG.warn(
          "Cannot send metrics to the driver at {}: {}. Training goes on; the driver shows no progress, and gets the epochs at the end.",
          address,
          reason);
    }
  }

  /** Sends what is queued, for at most 5 s, and closes the connection. */
  @Override
  public void close() {
    if (!broken && !queue.offer(END)) {
      broken = true;
      sender.interrupt();
    }
    try {
      sender.join(CLOSE_MILLIS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    sender.interrupt();
  }
}
