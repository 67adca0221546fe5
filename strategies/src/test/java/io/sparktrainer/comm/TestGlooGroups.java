package io.sparktrainer.comm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.sparktrainer.comm.CollectiveCounts.Kind;
import io.sparktrainer.comm.testing.RankThreads;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Device;
import io.sparktrainer.torch.NativeScope;
import io.sparktrainer.torch.Tensors;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.bytedeco.pytorch.Tensor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Several groups, many calls, and what a group holds, ranks as threads. */
@Timeout(120)
class TestGlooGroups {
  private static final int STRESS_CALLS = 2_000;
  private static final int UNDER_WAY = 8;

  private static float sumOver(Communicator group, float value) {
    try (var scope = NativeScope.open()) {
      Tensor tensor = Tensors.of(new float[] {value}, 1);
      group.allReduce(tensor, ReduceOp.SUM).await();
      return Tensors.toFloats(tensor)[0];
    }
  }

  @Test
  void fourRanksMakeAGridOfSubGroups() {
    RankThreads.runConnected(
        4,
        group -> {
          int rank = group.rank();
          int row = rank / 2;
          int column = rank % 2;
          try (Communicator shard = group.subGroup("shard", 2 * row, 2 * row + 1);
              Communicator replicate = group.subGroup("replicate", column, column + 2)) {
            assertThat(shard.rank()).isEqualTo(column);
            assertThat(replicate.rank()).isEqualTo(row);
            assertThat(shard.worldSize()).isEqualTo(2);
            assertThat(sumOver(shard, 1 << rank)).isEqualTo(row == 0 ? 3 : 12);
            assertThat(sumOver(replicate, 1 << rank)).isEqualTo(column == 0 ? 5 : 10);
            assertThat(sumOver(group, 1 << rank)).isEqualTo(15);
            assertThat(shard.counts().calls(Kind.ALL_REDUCE)).isEqualTo(1);
            try (Communicator alone = shard.subGroup("alone", shard.rank())) {
              assertThat(sumOver(alone, 7)).isEqualTo(7);
            }
            group.barrier().await();
          }
          assertThat(group.counts().calls()).containsOnlyKeys(Kind.ALL_REDUCE, Kind.BARRIER);
        });
  }

  @Test
  void anAbortInASubGroupEndsTheWholeRun() {
    RankThreads.run(
        3,
        rendezvous -> {
          Communicator group = GlooCommunicator.connect(rendezvous);
          if (rendezvous.rank() < 2) {
            Communicator pair = group.subGroup("pair", 0, 1);
            if (rendezvous.rank() == 0) {
              pair.abort("bad shard");
            }
          } else {
            assertThatThrownBy(() -> group.subGroup("pair", 1, 2))
                .isInstanceOf(CollectiveException.class)
                .hasMessageContaining("pair[1, 2]")
                .hasMessageContaining("aborted by rank 0 of 3: bad shard");
          }
          assertThatThrownBy(() -> group.barrier().await()).hasMessageContaining("bad shard");
          group.close();
        });
  }

  @Test
  void twoGroupsWorkAtOnceInDifferentThreads() {
    RankThreads.runConnected(
        2,
        group -> {
          Communicator other = group.subGroup("other", 0, 1);
          List<Float> sums = new ArrayList<>();
          Thread thread =
              new Thread(
                  () -> {
                    for (int i = 0; i < 200; i++) {
                      sums.add(sumOver(other, i));
                    }
                  });
          thread.start();
          for (int i = 0; i < 200; i++) {
            assertThat(sumOver(group, -i)).isEqualTo(-2 * i);
          }
          thread.join();
          assertThat(sums).hasSize(200);
          for (int i = 0; i < 200; i++) {
            assertThat(sums.get(i)).isEqualTo(2 * i);
          }
          other.close();
        });
  }

  @Test
  void ranksMayStartInAnyOrder() {
    for (int first = 0; first < 3; first++) {
      int early = first;
      CountDownLatch started = new CountDownLatch(1);
      RankThreads.run(
          3,
          rendezvous -> {
            if (rendezvous.rank() == early) {
              started.countDown();
            } else {
              assertThat(started.await(20, TimeUnit.SECONDS)).isTrue();
            }
            try (Communicator group = GlooCommunicator.connect(rendezvous)) {
              assertThat(sumOver(group, 1)).isEqualTo(3);
            }
          });
    }
  }

  @Test
  void severalCollectivesAreUnderWayAtOnceAndEndInAnyOrder() {
    RankThreads.runConnected(
        3,
        group -> {
          try (var scope = NativeScope.open()) {
            List<Tensor> tensors = new ArrayList<>();
            List<CollectiveHandle> handles = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
              Tensor tensor = Tensors.of(new float[] {group.rank() + i, i}, 2);
              tensors.add(tensor);
              handles.add(group.allReduce(tensor, ReduceOp.AVG));
            }
            for (int i = 19; i >= 0; i--) {
              handles.get(i).await();
              handles.get(i).await();
              assertThat(handles.get(i).isDone()).isTrue();
              assertThat(Tensors.toFloats(tensors.get(i))).containsExactly(1 + i, i);
            }
          }
        });
  }

  @Test
  void droppedHandlesAndClosedTensorsDoNoHarm() {
    RankThreads.runConnected(
        2,
        group -> {
          for (int i = 0; i < 300; i++) {
            try (var scope = NativeScope.open()) {
              group.allReduce(Tensors.zeros(DType.FLOAT32, Device.CPU, 10_000), ReduceOp.AVG);
            }
          }
          group.barrier().await();
          assertThat(sumOver(group, 2)).isEqualTo(4);
        });
  }

  @Test
  void reducesParametersWithoutTouchingAutograd() {
    RankThreads.runConnected(
        2,
        group -> {
          try (var scope = NativeScope.open()) {
            Tensor parameter = Tensors.of(new float[] {group.rank(), 4}, 2);
            parameter.set_requires_grad(true);
            Tensor output = parameter.mul(parameter).sum();
            group.allReduce(parameter, ReduceOp.AVG).await();
            assertThat(Tensors.toFloats(parameter)).containsExactly(0.5f, 4);
            output.backward();
            assertThat(Tensors.toFloats(parameter.grad())).containsExactly(1, 8);
          }
        });
  }

  /** 2,000 collectives in a random order that all ranks share, up to eight at a time. */
  @Test
  void manyCollectivesInARandomOrder() {
    RankThreads.runConnected(
        3,
        group -> {
          Random random = new Random(7);
          List<Runnable> checks = new ArrayList<>();
          for (int call = 0; call < STRESS_CALLS; call += UNDER_WAY) {
            try (var scope = NativeScope.open()) {
              for (int i = 0; i < UNDER_WAY; i++) {
                checks.add(startRandom(group, random));
              }
              checks.forEach(Runnable::run);
              checks.clear();
            }
          }
          CollectiveCounts counts = group.counts();
          long total = 0;
          for (Kind kind : Kind.values()) {
            assertThat(counts.calls(kind)).isGreaterThan(STRESS_CALLS / 10);
            total += counts.calls(kind);
          }
          assertThat(total).isEqualTo(STRESS_CALLS);
        });
  }

  private static Runnable startRandom(Communicator group, Random random) {
    int worldSize = group.worldSize();
    int elements = 1 + random.nextInt(3_000);
    int seed = random.nextInt(1_000);
    float mine = group.rank() + seed;
    float sum = worldSize * seed + worldSize * (worldSize - 1) / 2f;
    switch (random.nextInt(5)) {
      case 0 -> {
        Tensor tensor = filled(elements, mine);
        CollectiveHandle handle = group.allReduce(tensor, ReduceOp.SUM);
        return () -> check(handle, tensor, elements, sum);
      }
      case 1 -> {
        Tensor output = filled(elements, -1);
        CollectiveHandle handle =
            group.reduceScatter(output, filled((long) elements * worldSize, mine), ReduceOp.SUM);
        return () -> check(handle, output, elements, sum);
      }
      case 2 -> {
        Tensor output = filled((long) elements * worldSize, -1);
        CollectiveHandle handle = group.allGather(output, filled(elements, mine));
        return () -> {
          handle.await();
          float[] all = Tensors.toFloats(output);
          for (int rank = 0; rank < worldSize; rank++) {
            assertThat(all[rank * elements]).isEqualTo(rank + seed);
            assertThat(all[(rank + 1) * elements - 1]).isEqualTo(rank + seed);
          }
        };
      }
      case 3 -> {
        int root = random.nextInt(worldSize);
        Tensor tensor = filled(elements, mine);
        CollectiveHandle handle = group.broadcast(tensor, root);
        return () -> check(handle, tensor, elements, root + seed);
      }
      default -> {
        return group.barrier()::await;
      }
    }
  }

  private static Tensor filled(long elements, float value) {
    return Tensors.zeros(DType.FLOAT32, Device.CPU, elements).fill_(Tensors.scalar(value));
  }

  private static void check(CollectiveHandle handle, Tensor tensor, int elements, float expected) {
    handle.await();
    float[] values = Tensors.toFloats(tensor);
    assertThat(values).hasSize(elements);
    for (float value : values) {
      if (value != expected) {
        assertThat(values).containsOnly(expected);
      }
    }
  }
}
