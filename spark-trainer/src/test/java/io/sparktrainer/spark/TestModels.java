package io.sparktrainer.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.sparktrainer.nn.Block;
import io.sparktrainer.spark.config.ModelSpec;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestModels {
  private static final ModelShape IMAGES = ModelShape.of(List.of(3L, 12L, 16L), 10);

  @Test
  void theSameSeedGivesTheSameParameters() {
    try (var scope = NativeScope.open();
        Block one = Models.create(new ModelSpec.Mlp(4), IMAGES, 3);
        Block two = Models.create(new ModelSpec.Mlp(4), IMAGES, 3);
        Block other = Models.create(new ModelSpec.Mlp(4), IMAGES, 4)) {
      float[] weights = Tensors.toFloats(one.parameters().get("fc1.weight"));

      assertThat(weights).isEqualTo(Tensors.toFloats(two.parameters().get("fc1.weight")));
      assertThat(weights).isNotEqualTo(Tensors.toFloats(other.parameters().get("fc1.weight")));
    }
  }

  @Test
  void freeMemoryIsReadFromTheKernel() {
    assertThat(HostMemory.free("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")).hasValue(2048 * 1024);
    assertThat(HostMemory.availableBytes()).isPositive();
  }
}
