package io.sparktrainer.comm;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/**
 * What store and ranks say to each other over TCP. A rank opens with {@link #MAGIC}, the secret and
 * its number, and is answered {@link #WELCOME} or {@link #REFUSED}; then both send frames of one
 * byte and its fields.
 *
 * <p>The run has a store of its own, in Java, because libtorch's {@code TCPStore} asks the name
 * server for the name of every address it meets (a broken reverse zone costs seconds a connection,
 * in the one thread that serves all ranks), waits for ever for a peer that accepts and says
 * nothing, and can neither refuse a stranger nor tell the ranks that one of them has died.
 */
final class StoreProtocol {
  /** First four bytes of a connection. */
  static final int MAGIC = 0x53544b31;

  static final byte WELCOME = 1;
  static final byte REFUSED = 2;

  /** Rank to store: key and value. */
  static final byte SET = 10;

  /** Rank to store: request number and key; answered once the key is there. */
  static final byte GET = 11;

  /** Store to rank: request number and value. */
  static final byte VALUE = 12;

  /** Either way: the reason; the store passes it on to every rank. */
  static final byte ABORT = 13;

  /** Either way: what follows is an orderly end of the connection. */
  static final byte BYE = 14;

  private static final int MAX_BYTES = 16 << 20;

  private StoreProtocol() {}

  static void writeBytes(DataOutputStream out, byte[] bytes) throws IOException {
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  static byte[] readBytes(DataInputStream in) throws IOException {
    int length = in.readInt();
    if (length < 0 || length > MAX_BYTES) {
      throw new IOException("expected at most " + MAX_BYTES + " bytes, got " + length);
    }
    byte[] bytes = new byte[length];
    in.readFully(bytes);
    return bytes;
  }

  static void writeText(DataOutputStream out, String text) throws IOException {
    writeBytes(out, text.getBytes(StandardCharsets.UTF_8));
  }

  static String readText(DataInputStream in) throws IOException {
    return new String(readBytes(in), StandardCharsets.UTF_8);
  }
}
