package io.sparktrainer.optim;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;

class TestOptimizerSpec {
  @Test
  void defaultsArePyTorchs() {
    assertThat(OptimizerSpec.sgd().build()).isEqualTo(new OptimizerSpec.Sgd(1e-3, 0, 0, false, 0));
    assertThat(OptimizerSpec.adam().build())
        .isEqualTo(new OptimizerSpec.Adam(1e-3, 0.9, 0.999, 1e-8, 0, false));
    assertThat(OptimizerSpec.adamW().build())
        .isEqualTo(new OptimizerSpec.AdamW(1e-3, 0.9, 0.999, 1e-8, 0.01, false));
  }

  @Test
  void buildersSetEveryOption() {
    assertThat(
            OptimizerSpec.sgd()
                .lr(1)
                .momentum(2)
                .dampening(0)
                .nesterov(true)
                .weightDecay(3)
                .build())
        .isEqualTo(new OptimizerSpec.Sgd(1, 2, 0, true, 3));
    assertThat(
            OptimizerSpec.adam()
                .lr(1)
                .beta1(0.2)
                .beta2(0.3)
                .eps(4)
                .weightDecay(5)
                .amsgrad(true)
                .build())
        .isEqualTo(new OptimizerSpec.Adam(1, 0.2, 0.3, 4, 5, true));
    assertThat(OptimizerSpec.adamW().lr(1).beta1(0.2).weightDecay(0).build())
        .isEqualTo(new OptimizerSpec.AdamW(1, 0.2, 0.999, 1e-8, 0, false));
  }

  @Test
  void namesAreThoseOfAConfiguration() {
    assertThat(OptimizerSpec.sgd().build().name()).isEqualTo("sgd");
    assertThat(OptimizerSpec.adam().build().name()).isEqualTo("adam");
    assertThat(OptimizerSpec.adamW().build().name()).isEqualTo("adamw");
  }

  @Test
  void optionsOutOfRangeAreRefused() {
    refused(
        () -> OptimizerSpec.sgd().lr(-1).build(),
        "Cannot use sgd with lr -1.0: expected a finite value of at least 0.");
    refused(
        () -> OptimizerSpec.sgd().momentum(Double.NaN).build(),
        "Cannot use sgd with momentum NaN: expected a finite value of at least 0.");
    refused(
        () -> OptimizerSpec.sgd().dampening(Double.POSITIVE_INFINITY).build(),
        "Cannot use sgd with dampening Infinity: expected a finite value.");
    refused(
        () -> OptimizerSpec.sgd().weightDecay(-0.5).build(),
        "Cannot use sgd with weight_decay -0.5: expected a finite value of at least 0.");
    refused(
        () -> OptimizerSpec.sgd().nesterov(true).build(),
        "Cannot use sgd with nesterov: expected momentum above 0 and dampening 0, got momentum 0.0 and dampening 0.0.");
    refused(
        () -> OptimizerSpec.sgd().nesterov(true).momentum(0.9).dampening(0.1).build(),
        "Cannot use sgd with nesterov: expected momentum above 0 and dampening 0, got momentum 0.9 and dampening 0.1.");
    refused(
        () -> OptimizerSpec.adam().beta1(1).build(),
        "Cannot use adam with beta1 1.0: expected a value in [0, 1).");
    refused(
        () -> OptimizerSpec.adamW().beta2(-0.1).build(),
        "Cannot use adamw with beta2 -0.1: expected a value in [0, 1).");
    refused(
        () -> OptimizerSpec.adamW().eps(Double.NaN).build(),
        "Cannot use adamw with eps NaN: expected a finite value of at least 0.");
  }

  private static void refused(ThrowingCallable action, String message) {
    assertThatThrownBy(action).isInstanceOf(IllegalArgumentException.class).hasMessage(message);
  }
}
