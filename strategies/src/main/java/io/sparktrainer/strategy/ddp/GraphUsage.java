package io.sparktrainer.strategy.ddp;

import io.sparktrainer.comm.ByteExchange;
import io.sparktrainer.comm.CollectiveHandle;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.comm.ReduceOp;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * Which parameters the backward passes use, on this rank and on all, and whether the options allow
 * what was seen.
 *
 * <ul>
 *   <li>By default every parameter is used in every step.
 *   <li>With {@code find_unused_parameters} the ranks agree after every backward (one small
 *       all-reduce) on what nobody used.
 *   <li>With {@code static_graph} they agree after the first backward, and every later one must use
 *       the same parameters on the same ranks.
 * </ul>
 */
final class GraphUsage {
  private static final CollectiveHandle NOTHING =
      new CollectiveHandle() {
        @Override
        public void await() {}

        @Override
        public boolean isDone() {
          return true;
        }
      };

  private final List<String> names;
  private final DdpOptions options;
  private final Communicator communicator;
  private final boolean[] usedHere;
  private final boolean[] expectedHere;
  private final boolean[] unusedEverywhere;
  private boolean fixed;

  GraphUsage(List<String> names, DdpOptions options, Communicator communicator) {
    this.names = names;
    this.options = options;
    this.communicator = communicator;
    this.usedHere = new boolean[names.size()];
    this.expectedHere = new boolean[names.size()];
    this.unusedEverywhere = new boolean[names.size()];
    Arrays.fill(expectedHere, true);
    this.fixed = !options.findUnusedParameters() && !options.staticGraph();
  }

  /** Whether each step may use other parameters than the one before. */
  boolean isDynamic() {
    return options.findUnusedParameters() && !options.staticGraph();
  }

  /** Whether the set of used parameters is known and no longer changes. */
  boolean isFixed() {
    return fixed;
  }

  void beforeBackward() {
    Arrays.fill(usedHere, false);
  }

  void used(int index) {
    usedHere[index] = true;
  }

  /** How many parameters were used, or not, against what is expected of this rank by now. */
  int surprises() {
    return fixed ? surprising().size() : 0;
  }

  private List<Integer> surprising() {
    List<Integer> found = new ArrayList<>();
    for (int i = 0; i < usedHere.length; i++) {
      if (usedHere[i] != expectedHere[i]) {
        found.add(i);
      }
    }
    return found;
  }

  /** Whether some parameter got no gradient on this rank. */
  boolean anyUnusedHere() {
    for (boolean used : usedHere) {
      if (!used) {
        return true;
      }
    }
    return false;
  }

  /** Whether no rank used the parameter in this step. */
  boolean isUnusedEverywhere(int index) {
    return unusedEverywhere[index];
  }

  /** Finds out, where the set is not fixed, which parameters no rank used. */
  CollectiveHandle agree() {
    if (fixed) {
      return NOTHING;
    }
    long[] counts = new long[names.size()];
    for (int i = 0; i < counts.length; i++) {
      counts[i] = usedHere[i] ? 1 : 0;
    }
    Tensor map = NativeScope.keep(Tensors.of(counts, counts.length));
    CollectiveHandle handle = communicator.allReduce(map, ReduceOp.SUM);
    return new CollectiveHandle() {
      @Override
      public void await() {
        handle.await();
        record(Tensors.toLongs(map));
        map.close();
      }

      @Override
      public boolean isDone() {
        return handle.isDone();
      }
    };
  }

  private void record(long[] counts) {
    for (int i = 0; i < counts.length; i++) {
      unusedEverywhere[i] = counts[i] == 0;
    }
    if (options.staticGraph()) {
      System.arraycopy(usedHere, 0, expectedHere, 0, usedHere.length);
      fixed = true;
    }
  }

  /**
   * Ends a step in which some rank was surprised.
   *
   * @param surprised the same on all ranks
   * @throws IllegalStateException on every rank, naming the parameters and the ranks
   */
  void requireExpected(boolean surprised) {
    if (!surprised) {
      return;
    }
    List<String> mine = surprising().stream().map(i -> names.get(i) + word(i)).toList();
    byte[][] all =
        ByteExchange.allGather(
            communicator, String.join(", ", mine).getBytes(StandardCharsets.UTF_8));
    List<String> byRank = new ArrayList<>();
    for (int rank = 0; rank < all.length; rank++) {
      String text = new String(all[rank], StandardCharsets.UTF_8);
      if (!text.isEmpty()) {
        byRank.add(text + " on rank " + rank);
      }
    }
    throw new IllegalStateException(
        "Cannot reduce gradients: expected %s, got: %s (rank %d of %d). %s"
            .formatted(
                options.staticGraph()
                    ? "the parameters used in the first step"
                    : "a gradient for every parameter",
                String.join("; ", byRank),
                communicator.rank(),
                communicator.worldSize(),
                options.staticGraph()
                    ? "Set ddp.static_graph to false."
                    : "Set ddp.find_unused_parameters to true if the model leaves parameters out on purpose."));
  }

  private @Nullable String word(int index) {
    return usedHere[index] ? " used" : " without gradient";
  }
}
