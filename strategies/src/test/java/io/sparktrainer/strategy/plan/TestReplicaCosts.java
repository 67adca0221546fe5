package io.sparktrainer.strategy.plan;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.optim.OptimizerSpec;
import io.sparktrainer.strategy.DdpOptions;
import io.sparktrainer.strategy.Precision;
import io.sparktrainer.torch.DType;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Bytes per parameter against the table that PyTorch's engines were measured for. */
class TestReplicaCosts {
  private static final long NUMEL = 1_000_000;
  private static final ModelOutline MODEL = Outlines.units(NUMEL / 2, NUMEL / 2);
  private static final OptimizerSpec ADAM = OptimizerSpec.adamW().build();
  private static final DdpOptions VIEWS = DdpOptions.builder().gradientAsBucketView(true).build();

  private static ReplicaCosts costs(OptimizerSpec optimizer) {
    return new ReplicaCosts(MODEL, StepOutline.of(optimizer, Activations.UNKNOWN));
  }

  private static long perParameter(Cost cost) {
    return cost.memory().peak() / NUMEL;
  }

  @Test
  void noneTakes16BytesPerParameterWithAdam() {
    MemoryUse memory = costs(ADAM).none().memory();

    assertThat(memory).isEqualTo(new MemoryUse(4_000_000, 4_000_000, 8_000_000, 0, 0, 0, 0));
  }

  @Test
  void optimizersKeep0And4And8Bytes() {
    assertThat(perParameter(costs(OptimizerSpec.sgd().build()).none())).isEqualTo(8);
    assertThat(perParameter(costs(OptimizerSpec.sgd().momentum(0.9).build()).none())).isEqualTo(12);
    assertThat(perParameter(costs(OptimizerSpec.adam().build()).none())).isEqualTo(16);
    assertThat(perParameter(costs(OptimizerSpec.adam().amsgrad(true).build()).none()))
        .isEqualTo(20);
  }

  @Test
  void ddpTakes20And16WithBucketView() {
    assertThat(perParameter(costs(ADAM).ddp(4, DdpOptions.defaults()))).isEqualTo(20);

    MemoryUse views =
        new ReplicaCosts(
                Outlines.units(1000, 10, 20, 2000, 30), StepOutline.of(ADAM, Activations.UNKNOWN))
            .ddp(4, VIEWS)
            .memory();
    assertThat(views.gradients()).isEqualTo(4 * 2030);
    assertThat(views.peak() - views.gradients()).isEqualTo(16 * 3060);
  }

  @Test
  void accumulatedGradientsLieOutsideBuckets() {
    StepOutline accumulating = new StepOutline(ADAM, 4, Precision.NONE, Activations.UNKNOWN);

    assertThat(perParameter(new ReplicaCosts(MODEL, accumulating).ddp(2, VIEWS))).isEqualTo(20);
  }

  @Test
  void dpAddsGradientsPerReplicaOnOneMemoryAndNothingToTheRootOnDevices() {
    assertThat(perParameter(costs(ADAM).dpOnHost(3))).isEqualTo(16 + 4 * 2);
    assertThat(perParameter(costs(ADAM).dpOnDevices(3))).isEqualTo(16);
    assertThat(costs(ADAM).dpOnDevices(3).sentBytesPerStep()).isEqualTo(2 * 4 * NUMEL);
    assertThat(costs(ADAM).dpOnHost(3).sentBytesPerStep()).isZero();
  }

  @Test
  void ddpSendsTwiceTheGradientsLessThisRanksPart() {
    assertThat(costs(ADAM).ddp(4, DdpOptions.defaults()).sentBytesPerStep())
        .isEqualTo(2 * 4 * NUMEL * 3 / 4);
    assertThat(costs(ADAM).ddp(1, DdpOptions.defaults()).sentBytesPerStep()).isZero();
  }

  @Test
  void frozenParametersHaveNeitherGradientNorState() {
    ModelOutline model =
        new ModelOutline(
            List.of(new UnitOutline("", List.of(Outlines.parameter(10), Outlines.frozen(90)))), 16);

    Cost cost =
        new ReplicaCosts(model, StepOutline.of(ADAM, new Activations(7, Activations.Source.PROBED)))
            .ddp(2, DdpOptions.defaults());

    assertThat(cost.memory()).isEqualTo(new MemoryUse(416, 40, 80, 40, 0, 7, 0));
    assertThat(cost.sentBytesPerStep()).isEqualTo(40);
  }

  @Test
  void mixedPrecisionKeepsCastMatrices() {
    ModelOutline model =
        new ModelOutline(
            List.of(
                new UnitOutline(
                    "",
                    List.of(
                        new ParameterOutline("weight", DType.FLOAT32, List.of(10L, 10L), true),
                        new ParameterOutline("bias", DType.FLOAT32, List.of(10L), true)))),
            0);
    StepOutline bf16 = new StepOutline(ADAM, 1, Precision.BF16, Activations.UNKNOWN);

    assertThat(new ReplicaCosts(model, bf16).none().memory().copies()).isEqualTo(200);
  }

  @Test
  void badNumbersAreRefused() {
    assertThatThrownBy(() -> costs(ADAM).ddp(0, VIEWS))
        .hasMessage("Cannot plan ddp: expected at least 1 rank, got 0.");
    assertThatThrownBy(() -> costs(ADAM).dpOnHost(0))
        .hasMessage("Cannot plan dp: expected at least 1 replica, got 0.");
    assertThatThrownBy(() -> new StepOutline(ADAM, 0, Precision.NONE, Activations.UNKNOWN))
        .hasMessage("Cannot plan a step: expected at least 1 micro-batch, got accumulate 0.");
  }
}
