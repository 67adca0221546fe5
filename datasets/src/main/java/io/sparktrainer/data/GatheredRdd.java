package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.jspecify.annotations.Nullable;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Reads several partitions of a source per rank without a shuffle.
 *
 * <p>A barrier stage may not hold RDDs of different partition counts, so this RDD names as its
 * dependencies only the shuffles that the source stands on, and calls the source's iterators
 * itself.
 */
final class GatheredRdd extends RDD<byte[]> {
  private static final long serialVersionUID = 1L;

  /** One source, with the training or validation rows that it brings. */
  record Part(SourceRdd<?> source, SplitRule split, int firstPartition, int recordBytes)
      implements java.io.Serializable {
    /** Encodes one of its partitions. */
    Iterator<byte[]> open(Partition partition, TaskContext context) {
      return open(source, partition, context);
    }

    private <T> Iterator<byte[]> open(
        SourceRdd<T> typed, Partition partition, TaskContext context) {
      Iterator<T> rows =
          CollectionConverters.asJava(typed.rdd().rdd().iterator(partition, context));
      TileSource tiles = typed.tiles().open(rows, split, partition.index());
      return new StreamingIterator(tiles, firstPartition + partition.index(), recordBytes);
    }
  }

  private record Slice(int part, Partition partition) implements java.io.Serializable {}

  private record RankPartition(int index, List<Slice> slices) implements Partition {
    private static final long serialVersionUID = 1L;

    RankPartition {
      slices = List.copyOf(slices);
    }
  }

  private final ArrayList<Part> parts;
  private final ShareLayout.Grouped layout;

  GatheredRdd(List<Part> parts, ShareLayout.Grouped layout) {
    super(
        parts.get(0).source().rdd().context(),
        CollectionConverters.asScala(shuffles(parts)).toSeq(),
        ClassTag$.MODULE$.apply(byte[].class));
    this.parts = new ArrayList<>(parts);
    this.layout = layout;
  }

  private static List<Dependency<?>> shuffles(List<Part> parts) {
    List<Dependency<?>> found = new ArrayList<>();
    Set<Integer> seen = new HashSet<>();
    for (Part part : parts) {
      collectShuffles(part.source().rdd().rdd(), seen, found);
    }
    return found;
  }

  private static void collectShuffles(RDD<?> rdd, Set<Integer> seen, List<Dependency<?>> found) {
    if (!seen.add(rdd.id())) {
      return;
    }
    for (Dependency<?> dependency : CollectionConverters.asJava(rdd.dependencies())) {
      if (dependency instanceof ShuffleDependency<?, ?, ?>) {
        found.add(dependency);
      } else {
        collectShuffles(dependency.rdd(), seen, found);
      }
    }
  }

  @Override
  public Partition[] getPartitions() {
    Partition[] ranks = new Partition[layout.worldSize()];
    for (int rank = 0; rank < ranks.length; rank++) {
      List<Slice> slices = new ArrayList<>();
      for (int part = 0; part < parts.size(); part++) {
        Partition[] source = parts.get(part).source().rdd().rdd().partitions();
        int from = part == 0 ? layout.firstTraining(rank) : layout.firstValidation(rank);
        int to = part == 0 ? layout.firstTraining(rank + 1) : layout.firstValidation(rank + 1);
        for (int p = from; p < to; p++) {
          slices.add(new Slice(part, source[p]));
        }
      }
      ranks[rank] = new RankPartition(rank, slices);
    }
    return ranks;
  }

  @Override
  public scala.collection.Iterator<byte[]> compute(Partition split, TaskContext context) {
    Iterator<Slice> slices = ((RankPartition) split).slices().iterator();
    return CollectionConverters.asScala(
        new Iterator<byte[]>() {
          private @Nullable Iterator<byte[]> current;

          @Override
          public boolean hasNext() {
            while ((current == null || !current.hasNext()) && slices.hasNext()) {
              Slice slice = slices.next();
              current = parts.get(slice.part()).open(slice.partition(), context);
            }
            return current != null && current.hasNext();
          }

          @Override
          public byte[] next() {
            if (!hasNext() || current == null) {
              throw new java.util.NoSuchElementException("no more blocks");
            }
            return current.next();
          }
        });
  }
}
