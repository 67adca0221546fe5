package io.sparktrainer.strategy.fsdp;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.nn.Block;
import io.sparktrainer.nn.Linear;
import io.sparktrainer.nn.Mlp;
import io.sparktrainer.nn.ShardUnit;
import io.sparktrainer.strategy.WrapPolicy;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;

class TestUnitPlanner {
  private static Map<String, Set<String>> plan(Block model, WrapPolicy policy) {
    Map<String, Set<String>> units = new LinkedHashMap<>();
    for (UnitPlan plan : UnitPlanner.plan(model, policy)) {
      units.put(plan.name(), plan.parameters().keySet());
    }
    return units;
  }

  @Test
  void takesMarkedBlocksAndLeavesTheRestToTheModel() {
    try (Block model = new Models.Stack(2)) {
      Map<String, Set<String>> units = plan(model, new WrapPolicy.MarkedBlocks());
      assertThat(units.keySet()).containsExactly("", "block0", "block1");
      assertThat(units.get("")).containsExactly("in.weight", "in.bias", "out.weight", "out.bias");
      assertThat(units.get("block1"))
          .containsExactly(
              "block1.fc1.weight", "block1.fc1.bias", "block1.fc2.weight", "block1.fc2.bias");
    }
  }

  @Test
  void aModelWithoutMarksIsOneUnit() {
    try (Block model = new Mlp(5, List.of(4), 3)) {
      assertThat(plan(model, new WrapPolicy.MarkedBlocks())).containsOnlyKeys("");
      assertThat(plan(model, new WrapPolicy.WholeModel()).get("")).hasSize(4);
    }
  }

  @Test
  void countsForSizeWhatNoUnitBelowHasTaken() {
    try (Block model = new Models.Stack(2)) {
      // fc1: 112, fc2: 105 elements; both stay below, so their block with 217 is the unit.
      assertThat(plan(model, new WrapPolicy.MinParameters(113)).keySet())
          .containsExactly("", "block0", "block1");
      assertThat(plan(model, new WrapPolicy.MinParameters(110)).keySet())
          .containsExactly("", "block0.fc1", "block1.fc1");
    }
  }

  @Test
  void findsClassesByEitherName() {
    try (Block model = new Models.Stack(1)) {
      assertThat(plan(model, new WrapPolicy.ClassNames(Set.of("Linear"))).keySet())
          .containsExactly("", "in", "block0.fc1", "block0.fc2", "out");
      assertThat(
              plan(model, new WrapPolicy.ClassNames(Set.of(Models.Residual.class.getName())))
                  .keySet())
          .containsExactly("", "block0");
    }
  }

  @Test
  void aPolicyThatMatchesNothingIsAnError() {
    try (Block model = new Models.Stack(1)) {
      assertThatThrownBy(() -> plan(model, new WrapPolicy.ClassNames(Set.of("GptBlock"))))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "Cannot wrap by class: expected a block of [GptBlock] below the model, got only [Linear, Residual].");
      assertThatThrownBy(() -> plan(model, new WrapPolicy.MinParameters(1_000_000)))
          .isInstanceOf(IllegalArgumentException.class)
          .hasMessage(
              "Cannot wrap by size: expected a block of at least 1000000 parameters below the model, got at most 217.");
    }
  }

  /** Registers a parameter of another block. */
  static final class Tied extends Block implements ShardUnit {
    Tied(Linear owner) {
      tie("weight", owner.weight());
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0];
    }
  }

  static final class Marked extends Block implements ShardUnit {
    Marked(Map<String, Block> children) {
      children.forEach(this::child);
    }

    @Override
    protected Tensor forward(Tensor... inputs) {
      return inputs[0];
    }
  }

  @Test
  void aTiedParameterBelongsToTheInnermostUnitAroundItsUsers() {
    Linear first = new Linear(3, 3);
    Marked inner = new Marked(Map.of("fc", first));
    Marked outer = new Marked(new LinkedHashMap<>(Map.of("inner", inner)));
    Marked outerWithUser = new Marked(Map.of("a", outer, "b", new Tied(first)));
    try (Block model = new Marked(Map.of("only", outerWithUser))) {
      Map<String, Set<String>> units = plan(model, new WrapPolicy.MarkedBlocks());
      assertThat(units.keySet()).contains("", "only", "only.a", "only.a.inner", "only.b");
      assertThat(units.get("only")).hasSize(1);
      assertThat(units.get("only.a")).isEmpty();
      assertThat(units.get("only.a.inner")).hasSize(1).allMatch(name -> name.endsWith("bias"));
      assertThat(units.get("only.b")).isEmpty();
    }
  }

  @Test
  void aBlockRegisteredTwiceIsOneUnit() {
    Models.Residual shared = new Models.Residual(3);
    LinkedHashMap<String, Block> children = new LinkedHashMap<>();
    children.put("first", shared);
    children.put("second", shared);
    try (Block model = new Marked(children)) {
      Map<String, Set<String>> units = plan(model, new WrapPolicy.MarkedBlocks());
      assertThat(units.keySet()).containsExactly("", "first");
      assertThat(units.get("first")).hasSize(4);
    }
  }
}
