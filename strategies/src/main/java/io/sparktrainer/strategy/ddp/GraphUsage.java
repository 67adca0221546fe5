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
import java.util.Map;
import org.bytedeco.pytorch.Tensor;

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
 *
 * A rank without data uses nothing and expects nothing.
 */
final class GraphUsage {
  private final List<String> names;
  private final Map<String, Tensor> frozen;
  private final DdpOptions options;
  private final Communicator communicator;
  private final boolean[] usedHere;
  private final boolean[] expectedHere;
  private final boolean[] unusedEverywhere;
  private boolean shadow;
  private boolean fixed;

  /**
   * @param names the parameters that are reduced
   * @param frozen those that required no gradient at construction, and so must not later
   */
  GraphUsage(
      List<String> names,
      Map<String, Tensor> frozen,
      DdpOptions options,
      Communicator communicator) {
    this.names = names;
    this.frozen = frozen;
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

  /**
   * Starts a step.
   *
   * @param withoutData whether this rank only takes part in the other ranks' step
   */
  void beforeBackward(boolean withoutData) {
    Arrays.fill(usedHere, false);
    shadow = withoutData;
  }

  void used(int index) {
    usedHere[index] = true;
  }

  /** Whether this rank is known not to use the parameter in this step. */
  boolean isKnownUnused(int index) {
    return shadow || (fixed && !expectedHere[index]);
  }

  /** How much was not as expected of this rank: parameters used, not used, or unfrozen. */
  int surprises() {
    return surprising().size();
  }

  private List<String> surprising() {
    List<String> found = new ArrayList<>();
    if (shadow) {
      return found;
    }
    for (int i = 0; fixed && i < usedHere.length; i++) {
      if (usedHere[i] != expectedHere[i]) {
        found.add(names.get(i) + (usedHere[i] ? " used" : " without gradient"));
      }
    }
    frozen.forEach(
        (name, tensor) -> {
          if (tensor.requires_grad()) {
            found.add(name + " unfrozen");
          }
        });
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

  /**
   * Finds out, where the set is not fixed, which parameters no rank used.
   *
   * @return what completes the agreement
   */
  Runnable agree() {
    if (fixed) {
      return () -> {};
    }
    long[] counts = new long[names.size()];
    for (int i = 0; i < counts.length; i++) {
      counts[i] = usedHere[i] ? 1 : 0;
    }
    Tensor map = NativeScope.keep(Tensors.of(counts, counts.length));
    CollectiveHandle handle = communicator.allReduce(map, ReduceOp.SUM);
    return () -> {
      handle.await();
      record(Tensors.toLongs(map));
      map.close();
    };
  }

  private void record(long[] counts) {
    for (int i = 0; i < counts.length; i++) {
      unusedEverywhere[i] = counts[i] == 0;
      // What a rank without data would use is not known; all that any rank used is the best guess.
      expectedHere[i] = shadow ? counts[i] > 0 : usedHere[i];
    }
    fixed = options.staticGraph();
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
    byte[] mine = String.join(", ", surprising()).getBytes(StandardCharsets.UTF_8);
    byte[][] all = ByteExchange.allGather(communicator, mine);
    List<String> byRank = new ArrayList<>();
    for (int rank = 0; rank < all.length; rank++) {
      if (all[rank].length > 0) {
        byRank.add(new String(all[rank], StandardCharsets.UTF_8) + " on rank " + rank);
      }
    }
    throw new IllegalStateException(
        "Cannot reduce gradients: expected %s, got: %s (rank %d of %d). %s"
            .formatted(
                options.staticGraph()
                    ? "the parameters used in the first step"
                    : "a gradient for every parameter that required one at construction",
                String.join("; ", byRank),
                communicator.rank(),
                communicator.worldSize(),
                remedy(byRank)));
  }

  private String remedy(List<String> byRank) {
    if (byRank.stream().anyMatch(text -> text.contains(" unfrozen"))) {
      return "Start a new training, with a new optimizer, after unfreezing parameters.";
    }
    return options.staticGraph()
        ? "Set ddp.static_graph to false."
        : "Set ddp.find_unused_parameters to true if the model leaves parameters out on purpose.";
  }
}
