package io.sparktrainer.torch;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashSet;
import java.util.Set;
import org.bytedeco.pytorch.Edge;
import org.bytedeco.pytorch.Node;
import org.bytedeco.pytorch.Tensor;

/**
 * The leaves that a backward pass from some output would give a gradient, found by walking the
 * graph. Valid for as long as that graph exists.
 */
public final class GraphLeaves {
  private final Set<Long> accumulators = new HashSet<>();

  private GraphLeaves() {}

  /** The leaves of {@code output}'s graph; {@code output} may be a leaf itself. */
  public static GraphLeaves of(Tensor output) {
    GraphLeaves leaves = new GraphLeaves();
    try (var scope = NativeScope.open();
        var on = Gradients.on()) {
      // The view gives a leaf a graph of one edge, so that it needs no rule of its own.
      leaves.walk(output.view_as(output).grad_fn());
    }
    return leaves;
  }

  private void walk(Node root) {
    Set<Long> seen = new HashSet<>();
    Deque<Node> open = new ArrayDeque<>();
    open.add(root);
    while (!open.isEmpty()) {
      Node node = open.removeLast();
      if (!seen.add(node.address())) {
        continue;
      }
      int edges = node.num_outputs();
      if (edges == 0) {
        accumulators.add(node.address());
      }
      for (int i = 0; i < edges; i++) {
        Edge edge = node.next_edge(i);
        if (edge.is_valid()) {
          open.add(edge.function());
        }
      }
    }
  }

  /**
   * Takes {@code leaf}, which requires a gradient, out of the leaves found.
   *
   * @return whether it was among them
   */
  public boolean remove(Tensor leaf) {
    try (var scope = NativeScope.open();
        var on = Gradients.on()) {
      return accumulators.remove(leaf.view_as(leaf).grad_fn().next_edge(0).function().address());
    }
  }

  /** Number of leaves that have not been taken out. */
  public int size() {
    return accumulators.size();
  }
}
