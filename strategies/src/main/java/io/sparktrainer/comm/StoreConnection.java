package io.sparktrainer.comm;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The store's end of one rank's connection. */
final class StoreConnection {
  private static final Logger LOG = LoggerFactory.getLogger(StoreConnection.class);
  private static final int GREETING_MILLISECONDS = 10_000;

  private final StoreServer server;
  private final Socket socket;
  private final DataInputStream in;
  private final DataOutputStream out;

  StoreConnection(StoreServer server, Socket socket) throws IOException {
    this.server = server;
    this.socket = socket;
    this.in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
    this.out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
  }

  /** Serves the rank until it leaves. */
  void serve() {
    try (socket) {
      int rank = greet();
      if (rank >= 0 && server.join(this)) {
        serveRank(rank);
        server.leave(this);
      }
    } catch (IOException e) {
      LOG.debug("The store turned a connection away: {}", e.toString());
    }
  }

  /** Number of the rank, or -1 for a stranger. */
  private int greet() throws IOException {
    socket.setTcpNoDelay(true);
    socket.setSoTimeout(GREETING_MILLISECONDS);
    boolean known =
        in.readInt() == StoreProtocol.MAGIC && server.hasSecret(StoreProtocol.readText(in));
    int rank = known ? in.readInt() : -1;
    send(known ? StoreProtocol.WELCOME : StoreProtocol.REFUSED, frame -> {});
    socket.setSoTimeout(0);
    return rank;
  }

  private void serveRank(int rank) {
    String lost;
    try {
      if (serveFrames()) {
        return;
      }
      lost = "sent what is no frame";
    } catch (IOException e) {
      lost = e instanceof java.io.EOFException ? "closed" : e.toString();
    }
    server.spreadAbort(
        "the store: lost rank %d of %d, its connection %s. See that rank's own log."
            .formatted(rank, server.worldSize(), lost));
  }

  /** Returns true after an orderly end, false if the rank makes no sense. */
  private boolean serveFrames() throws IOException {
    while (true) {
      switch (in.readByte()) {
        case StoreProtocol.SET -> {
          String key = StoreProtocol.readText(in);
          server.set(key, StoreProtocol.readBytes(in));
        }
        case StoreProtocol.GET -> {
          long request = in.readLong();
          server.get(this, request, StoreProtocol.readText(in));
        }
        case StoreProtocol.ABORT -> server.spreadAbort(StoreProtocol.readText(in));
        case StoreProtocol.BYE -> {
          return true;
        }
        default -> {
          return false;
        }
      }
    }
  }

  void sendValue(long request, byte[] value) {
    send(
        StoreProtocol.VALUE,
        frame -> {
          frame.writeLong(request);
          StoreProtocol.writeBytes(frame, value);
        });
  }

  void sendAbort(String reason) {
    send(StoreProtocol.ABORT, frame -> StoreProtocol.writeText(frame, reason));
  }

  /** Tells the rank that the store ends in good order, and ends. */
  void sayBye() {
    send(StoreProtocol.BYE, frame -> {});
    try {
      socket.close();
    } catch (IOException e) {
      LOG.debug("Could not close a rank's connection: {}", e.toString());
    }
  }

  private interface Fields {
    void write(DataOutputStream frame) throws IOException;
  }

  private synchronized void send(byte kind, Fields fields) {
    try {
      out.writeByte(kind);
      fields.write(out);
      out.flush();
    } catch (IOException e) {
      // The reading side meets the same broken connection and reports it.
      LOG.debug("Could not answer a rank: {}", e.toString());
    }
  }
}
