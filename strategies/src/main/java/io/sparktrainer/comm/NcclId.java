package io.sparktrainer.comm;

import io.sparktrainer.torch.NativeScope;
import java.util.Arrays;
import java.util.Base64;
import org.bytedeco.cuda.global.nccl;
import org.bytedeco.cuda.nccl.ncclUniqueId;

/**
 * What the ranks of an NCCL group meet at: made on one of them, and handed to all others. It holds
 * an address of the process that made it, which serves it until the group is connected, and whoever
 * knows it can join.
 */
public final class NcclId {
  /** Length of every id. */
  public static final int BYTES = 128;

  private final byte[] bytes;

  private NcclId(byte[] bytes) {
    this.bytes = bytes;
  }

  /**
   * A new id, for one group, served by this process.
   *
   * @throws io.sparktrainer.torch.NativeLibraryException if NCCL cannot be loaded
   * @throws CollectiveException if NCCL finds no network interface to serve it on
   */
  public static NcclId create() {
    NcclLibrary.load();
    try (var scope = NativeScope.open()) {
      ncclUniqueId id = new ncclUniqueId();
      int result = nccl.ncclGetUniqueId(id);
      if (result != nccl.ncclSuccess) {
        throw new CollectiveException(
            "Cannot make an id for an NCCL group: "
                + NcclLibrary.describe(result)
                + ". NCCL_SOCKET_IFNAME chooses the network interface.",
            null);
      }
      byte[] bytes = new byte[BYTES];
      id.internal().get(bytes);
      return new NcclId(bytes);
    }
  }

  /**
   * @throws IllegalArgumentException if there are not {@link #BYTES} of them
   */
  public static NcclId of(byte[] bytes) {
    if (bytes.length != BYTES) {
      throw new IllegalArgumentException(
          "Cannot read an NCCL id: expected %d bytes, got %d.".formatted(BYTES, bytes.length));
    }
    return new NcclId(bytes.clone());
  }

  /**
   * Reads what {@link #toText()} wrote.
   *
   * @throws IllegalArgumentException if it is something else
   */
  public static NcclId parse(String text) {
    try {
      return of(Base64.getDecoder().decode(text));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "Cannot read an NCCL id: expected the base64 text of %d bytes, got %d characters."
              .formatted(BYTES, text.length()),
          e);
    }
  }

  /** Base64, on one line. */
  public String toText() {
    return Base64.getEncoder().encodeToString(bytes);
  }

  public byte[] toBytes() {
    return bytes.clone();
  }

  /** In the current scope. */
  ncclUniqueId toNative() {
    ncclUniqueId id = new ncclUniqueId();
    id.internal().put(bytes);
    return id;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof NcclId id && Arrays.equals(bytes, id.bytes);
  }

  @Override
  public int hashCode() {
    return Arrays.hashCode(bytes);
  }

  /** Without the id. */
  @Override
  public String toString() {
    return "NCCL id " + Integer.toHexString(hashCode());
  }
}
