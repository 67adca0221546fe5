package io.sparktrainer.comm;

import io.sparktrainer.torch.Device;

/** Connects the ranks of a group over NCCL. */
public final class NcclRendezvous {
  private NcclRendezvous() {}

  /**
   * Joins the group of {@code id}; every rank calls it, in any order, with the same id and world
   * size and a device of its own. An abort stays on its rank: the others meet it as a lost peer, or
   * in the time-out.
   *
   * @param rank this rank, from 0
   * @param device where the tensors are that will be handed in; with stand-ins for devices, the CPU
   * @param timeoutSeconds longest wait for a peer, now and in every collective
   * @throws io.sparktrainer.torch.NativeLibraryException if NCCL or CUDA cannot be loaded, or there
   *     is no such device
   * @throws CollectiveException if a rank does not come in time, or NCCL fails
   */
  public static Communicator connect(
      NcclId id, int rank, int worldSize, Device device, int timeoutSeconds) {
    if (worldSize < 1 || rank < 0 || rank >= worldSize || timeoutSeconds < 1) {
      throw new IllegalArgumentException(
          "Cannot join an NCCL group: expected a rank in 0..%d and a time-out of at least 1 s, got rank %d of world size %d and %d s."
              .formatted(worldSize - 1, rank, worldSize, timeoutSeconds));
    }
    NcclLibrary.load();
    return connect(id, NcclSession.alone(rank, worldSize, device, timeoutSeconds));
  }

  /**
   * The same for ranks that have a store: a rank that aborts or is lost ends the group on all at
   * once.
   */
  public static Communicator connect(NcclId id, Rendezvous rendezvous, Device device) {
    NcclLibrary.load();
    return connect(id, NcclSession.connect(rendezvous, device));
  }

  private static Communicator connect(NcclId id, NcclSession session) {
    try {
      return new NcclCommunicator(session, session.open(id), session.rank, session.worldSize, true);
    } catch (RuntimeException e) {
      session.abort(String.valueOf(e.getMessage()));
      session.closeAll(() -> {});
      throw e;
    }
  }
}
