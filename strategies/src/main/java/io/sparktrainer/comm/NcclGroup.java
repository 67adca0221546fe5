package io.sparktrainer.comm;

import io.sparktrainer.torch.CudaStream;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import java.util.List;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.cuda.global.nccl;
import org.bytedeco.cuda.nccl.ncclComm;
import org.bytedeco.cuda.nccl.ncclConfig_t;
import org.bytedeco.javacpp.PointerPointer;
import org.jspecify.annotations.Nullable;

/**
 * The native side of one NCCL group, and the stream that its collectives run on. No call blocks:
 * what takes longer is looked at with {@link #state()}. Once aborted, no call reaches NCCL.
 */
final class NcclGroup {
  private static final int CONFIG_MAGIC = 0xcafebeef;
  private static final int UNDEFINED = Integer.MIN_VALUE;

  private final CudaStream stream;
  // NCCL may fill it in after the call that it was handed to.
  private final PointerPointer<ncclComm> slot;
  private @Nullable ncclComm comm;
  private boolean ended;

  /** A call, or several, of NCCL's that queue collectives. */
  interface Launch {
    /** Returns NCCL's result. */
    int on(ncclComm comm, CUstream_st stream);

    /** All of {@code launches} as one. */
    static Launch grouped(List<Launch> launches) {
      return (comm, stream) -> {
        int result = nccl.ncclGroupStart();
        for (Launch launch : launches) {
          if (!isError(result)) {
            result = launch.on(comm, stream);
          }
        }
        int end = nccl.ncclGroupEnd();
        return isError(result) ? result : end;
      };
    }
  }

  private NcclGroup(CudaStream stream) {
    this.stream = stream;
    try (var scope = NativeScope.open()) {
      this.slot = NativeScope.keep(new PointerPointer<ncclComm>(1));
    }
    slot.put(0, null);
  }

  /**
   * Starts to join {@code size} ranks; it is connected once {@link #state()} is success.
   *
   * @throws CollectiveException if NCCL refuses at once
   */
  static NcclGroup open(NcclId id, int rank, int size, Device device) {
    NcclLibrary.load();
    NcclGroup group = new NcclGroup(CudaStream.open(device));
    try (var scope = NativeScope.open()) {
      int result = nccl.ncclCommInitRankConfig(group.slot, size, id.toNative(), rank, config());
      group.comm = group.filledSlot();
      if (isError(result) || group.comm == null) {
        group.abort();
        group.closeStream();
        throw new CollectiveException(
            "Cannot join the NCCL group on %s (rank %d of %d): %s."
                .formatted(device, rank, size, NcclLibrary.describe(result)),
            null);
      }
      return group;
    }
  }

  private static ncclConfig_t config() {
    ncclConfig_t config = new ncclConfig_t();
    config
        .size(config.sizeof())
        .magic(CONFIG_MAGIC)
        .version(nccl.NCCL_VERSION_CODE)
        .blocking(0)
        .cgaClusterSize(UNDEFINED)
        .minCTAs(UNDEFINED)
        .maxCTAs(UNDEFINED)
        .netName(null)
        .splitShare(UNDEFINED)
        .trafficClass(UNDEFINED)
        .commName(null)
        .collnetEnable(UNDEFINED)
        .CTAPolicy(UNDEFINED)
        .shrinkShare(UNDEFINED)
        .nvlsCTAs(UNDEFINED)
        .nChannelsPerNetPeer(UNDEFINED)
        .nvlinkCentricSched(UNDEFINED)
        .graphUsageMode(UNDEFINED)
        .numRmaCtx(UNDEFINED);
    return config;
  }

  private @Nullable ncclComm filledSlot() {
    ncclComm found = slot.get(ncclComm.class, 0);
    return found == null || found.isNull() ? null : NativeScope.keep(found);
  }

  /**
   * Starts to split off a group. The split is done once this group's {@link #state()} is success;
   * then {@link #isSplitOff()} makes the new one usable, and its own state tells when it is
   * connected.
   *
   * @param color the same on all ranks of the new group; {@code NCCL_SPLIT_NOCOLOR} to be in none
   * @param key order in the new group
   */
  synchronized NcclGroup split(int color, int key, Device device) {
    NcclGroup child = new NcclGroup(CudaStream.open(device));
    int result =
        comm == null || ended
            ? nccl.ncclInvalidUsage
            : nccl.ncclCommSplit(comm, color, key, child.slot, null);
    if (isError(result)) {
      child.closeStream();
      throw new CollectiveException(
          "Cannot split off a group: " + NcclLibrary.describe(result) + ".", null);
    }
    return child;
  }

  /** Whether the group has been made; to be asked after the split is done. */
  synchronized boolean isSplitOff() {
    comm = filledSlot();
    return comm != null;
  }

  /** NCCL's result so far: success, in progress, or what went wrong. */
  synchronized int state() {
    if (comm == null || ended) {
      return nccl.ncclInvalidUsage;
    }
    int[] error = new int[1];
    int result = nccl.ncclCommGetAsyncError(comm, error);
    return result == nccl.ncclSuccess ? error[0] : result;
  }

  /** What NCCL reports to have gone wrong; null if nothing, and once the group has ended. */
  synchronized @Nullable String problem() {
    if (comm == null || ended) {
      return null;
    }
    int state = state();
    return isError(state) ? NcclLibrary.describe(state) : null;
  }

  static boolean isError(int state) {
    return state != nccl.ncclSuccess && state != nccl.ncclInProgress;
  }

  /**
   * Queues a collective, or a group of them, behind what the calling thread has given libtorch. It
   * is on the stream once {@link #state()} is success.
   *
   * @return NCCL's result
   */
  synchronized int launch(Launch collective) {
    if (comm == null || ended) {
      return nccl.ncclInvalidUsage;
    }
    stream.followLibtorch();
    return collective.on(comm, stream.handle());
  }

  /** Marks the end of what is on the stream. */
  CudaStream.Mark mark() {
    return stream.mark();
  }

  /** Ends the group at once, with what it has under way on the device. */
  synchronized void abort() {
    if (!ended) {
      ended = true;
      if (comm != null) {
        nccl.ncclCommAbort(comm);
      }
    }
  }

  /** Starts to end the group in good order. */
  synchronized int finish() {
    return comm == null || ended ? nccl.ncclSuccess : nccl.ncclCommFinalize(comm);
  }

  /** Frees a finished group. */
  synchronized void destroy() {
    if (!ended) {
      ended = true;
      if (comm != null) {
        nccl.ncclCommDestroy(comm);
      }
    }
  }

  /** After the end, and after all work on the stream. */
  void closeStream() {
    stream.close();
    slot.close();
  }
}
