package io.sparktrainer.torch;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.testing.Memory;
import io.sparktrainer.testing.Values;
import java.util.concurrent.atomic.AtomicReference;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.Test;

class TestNativeScope {
  @Test
  void closingFreesWhatWasMadeInside() {
    Tensor inside;
    try (var scope = NativeScope.open()) {
      inside = Tensors.of(new float[] {1}, 1);
      assertThat(inside.isNull()).isFalse();
    }
    assertThat(inside.isNull()).isTrue();
  }

  @Test
  void keptTensorsOutliveAllScopes() {
    Tensor kept;
    try (var outer = NativeScope.open()) {
      try (var inner = NativeScope.open()) {
        kept = NativeScope.keep(Tensors.of(new float[] {1, 2}, 2));
      }
      assertThat(Values.of(kept)).containsExactly(1, 2);
    }
    assertThat(Values.of(kept)).containsExactly(1, 2);
    kept.close();
    assertThat(kept.isNull()).isTrue();
  }

  @Test
  void passedTensorsBelongToTheNextOuterScope() {
    Tensor passed;
    try (var outer = NativeScope.open()) {
      try (var middle = NativeScope.open()) {
        try (var inner = NativeScope.open()) {
          passed = inner.pass(Tensors.of(new float[] {1, 2}, 2));
        }
        assertThat(Values.of(passed)).containsExactly(1, 2);
      }
      assertThat(passed.isNull()).isTrue();
    }
  }

  @Test
  void passedTensorsBelongToTheCallerWhereThereIsNoOuterScope() {
    Tensor passed;
    try (var scope = NativeScope.open()) {
      passed = scope.pass(Tensors.of(new float[] {1, 2}, 2));
    }
    assertThat(Values.of(passed)).containsExactly(1, 2);
    passed.close();
    assertThat(passed.isNull()).isTrue();
  }

  /** JavaCPP returns from {@code add_} an object that does not own the tensor it was called on. */
  @Test
  void aliasesFromInPlaceOperationsArePassedAsOwners() {
    try (var outer = NativeScope.open()) {
      Tensor passed;
      try (var inner = NativeScope.open()) {
        Tensor made = Tensors.of(new float[] {1, 2}, 2);
        passed = inner.pass(made.add_(Tensors.scalar(1.0)));
      }
      assertThat(Values.of(passed)).containsExactly(2, 3);
    }
  }

  @Test
  void passingOnAndOnKeepsMemoryFlat() {
    // one leaked tensor per round would be 400 MB
    long growth =
        Memory.growth(
            2000,
            () -> {
              try (var outer = NativeScope.open()) {
                Tensor x;
                try (var inner = NativeScope.open()) {
                  x = inner.pass(Tensors.zeros(DType.FLOAT32, Device.CPU, 50_000));
                }
                try (var inner = NativeScope.open()) {
                  x = inner.pass(x.add_(Tensors.scalar(1.0)));
                }
                assertThat(x.numel()).isEqualTo(50_000);
              }
            });
    assertThat(growth).isLessThan(20L << 20);
  }

  @Test
  void everyThreadHasItsOwnScopes() throws InterruptedException {
    AtomicReference<Tensor> made = new AtomicReference<>();
    try (var scope = NativeScope.open()) {
      Thread thread =
          new Thread(
              () -> {
                try (var other = NativeScope.open()) {
                  made.set(other.pass(torch.ones(3)));
                }
              });
      thread.start();
      thread.join();
    }
    // this thread's scope never owned it
    assertThat(Values.of(made.get())).containsExactly(1, 1, 1);
    made.get().close();
  }
}
