package io.sparktrainer.comm;

import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeLibraries;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.concurrent.CompletableFuture;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.Work;
import org.jspecify.annotations.Nullable;

/**
 * Collectives between CPU ranks over TCP, on libtorch's Gloo.
 *
 * <p>Element types: float64, float32, bfloat16, float16, int64, int32, int8 and uint8; bool can be
 * gathered and broadcast, not reduced; int16 not at all; AVG takes floating-point tensors only, and
 * sums in the tensor's own type before it divides.
 *
 * <p>All collectives are libtorch's but reduce-scatter, which is a ring of sends and receives.
 */
public final class GlooCommunicator extends CheckedCommunicator {
  private static final long TAG_MASK = Integer.MAX_VALUE;

  private final GlooSession session;
  private final GlooGroup group;
  private final String prefix;
  private final boolean root;
  private final boolean verified;
  private final Deque<GlooHandle> underWay = new ArrayDeque<>();

  private GlooCommunicator(
      GlooSession session, String prefix, int rank, int worldSize, boolean root, boolean verified) {
    super(rank, worldSize, session.abort, new TensorChecks(Device.CPU, "Gloo"));
    this.session = session;
    this.prefix = prefix;
    this.root = root;
    this.verified = verified;
    this.group = session.open(prefix, rank, worldSize);
  }

  /**
   * Joins the group of {@code rendezvous}; every rank calls it, rank 0 included, in any order. A
   * group of one rank needs no store and opens no socket. Peers reach this rank at the address that
   * this machine uses towards rank 0.
   *
   * @throws CollectiveException if rank 0's store or a peer does not answer within the rendezvous's
   *     time-out, or if the run was aborted
   */
  public static Communicator connect(Rendezvous rendezvous) {
    return builder(rendezvous).connect();
  }

  /** For more than the defaults of {@link #connect(Rendezvous)}. */
  public static Builder builder(Rendezvous rendezvous) {
    return new Builder(rendezvous);
  }

  /** How to join a group. */
  public static final class Builder {
    private final Rendezvous rendezvous;
    private @Nullable String localHost;
    private boolean verified;

    private Builder(Rendezvous rendezvous) {
      this.rendezvous = rendezvous;
    }

    /** Address of this machine at which the other ranks reach this one. */
    public Builder localHost(String address) {
      this.localHost = address;
      return this;
    }

    /**
     * Lets the ranks compare, before each collective, what they are about to call. Where they
     * differ, every rank gets a {@link CollectiveException} that names both calls, and the group
     * can still be used; without this, tensors of different sizes end the JVM, and other
     * differences end in the time-out. Costs a small all-gather, which is waited for, a collective.
     * Every rank has to ask for it.
     */
    public Builder verified() {
      this.verified = true;
      return this;
    }

    /** See {@link GlooCommunicator#connect(Rendezvous)}. */
    public Communicator connect() {
      if (rendezvous.worldSize() == 1) {
        return new LocalCommunicator();
      }
      NativeLibraries.load();
      GlooSession session = GlooSession.connect(rendezvous, localHost);
      try {
        return new GlooCommunicator(
            session, "world", rendezvous.rank(), rendezvous.worldSize(), true, verified);
      } catch (RuntimeException e) {
        session.closeAll();
        throw e;
      }
    }
  }

  /** Compares the ranks' calls, if the group was asked to. */
  @Override
  void agree(CollectiveCall call) {
    if (verified) {
      new CallAgreement(this, call).require(this::gatherUnchecked);
    }
  }

  private void gatherUnchecked(CollectiveCall call, Tensor output, Tensor input) {
    startAllGather(call, output, input).await();
  }

  @Override
  CollectiveHandle startAllReduce(CollectiveCall call, Tensor tensor, ReduceOp op) {
    Tensor kept = FlatTensors.keep(tensor);
    return track(
        call,
        group.allReduce(kept, op),
        op == ReduceOp.AVG
            ? () -> FlatTensors.divide(kept, worldSize())
            : GlooHandle.Finish.NOTHING,
        kept);
  }

  @Override
  CollectiveHandle startReduceScatter(
      CollectiveCall call, Tensor output, Tensor input, ReduceOp op) {
    Tensor keptOutput = FlatTensors.keep(output);
    Tensor keptInput = FlatTensors.keep(input);
    RingReduceScatter ring = new RingReduceScatter(group, rank(), worldSize(), op);
    int tag = (int) (call.sequence() & TAG_MASK);
    CompletableFuture<Void> work =
        group.runInOrder(
            () -> {
              try (keptOutput;
                  keptInput) {
                ring.run(keptOutput, keptInput, tag);
              }
            });
    return new RingHandle(this, call, session.rendezvous.timeoutSeconds(), work);
  }

  @Override
  CollectiveHandle startAllGather(CollectiveCall call, Tensor output, Tensor input) {
    Tensor keptOutput = FlatTensors.keep(output);
    Tensor keptInput = FlatTensors.keep(input);
    return track(
        call,
        group.allGather(keptOutput, keptInput),
        GlooHandle.Finish.NOTHING,
        keptOutput,
        keptInput);
  }

  @Override
  CollectiveHandle startBroadcast(CollectiveCall call, Tensor tensor, int sender) {
    Tensor kept = FlatTensors.keep(tensor);
    return track(call, group.broadcast(kept, sender), GlooHandle.Finish.NOTHING, kept);
  }

  @Override
  CollectiveHandle startBarrier(CollectiveCall call) {
    return track(call, group.barrier(), GlooHandle.Finish.NOTHING);
  }

  private synchronized CollectiveHandle track(
      CollectiveCall call, Work work, GlooHandle.Finish finish, Tensor... tensors) {
    underWay.removeIf(GlooHandle::settle);
    GlooHandle handle =
        new GlooHandle(this, call, session.rendezvous.timeoutSeconds(), work, finish, tensors);
    underWay.add(handle);
    return handle;
  }

  @Override
  Communicator split(String name, int[] ranks, int rankInGroup) {
    if (ranks.length == 1) {
      return new LocalCommunicator(Device.CPU, abortSignal(), session::abort);
    }
    // The ranks are part of the key, so that ranks which disagree about the division do not meet.
    String key = prefix + "/" + name + Arrays.toString(ranks);
    return new GlooCommunicator(session, key, rankInGroup, ranks.length, false, verified);
  }

  /** Ends this group, the one it was split from, and all that were split from either. */
  @Override
  public void abort(String reason) {
    session.abort(reason);
  }

  @Override
  synchronized void release() {
    if (root) {
      session.closeAll();
    } else {
      session.close(group);
    }
    underWay.removeIf(GlooHandle::settle);
  }

  @Override
  public String toString() {
    return "%s (rank %d of %d)".formatted(prefix, rank(), worldSize());
  }
}
