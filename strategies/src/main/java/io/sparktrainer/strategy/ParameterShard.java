package io.sparktrainer.strategy;

import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * The part of one parameter that a rank holds: elements {@code offset} to {@code offset +
 * values.numel()} of the parameter in row-major order. Over the ranks of one shard group the parts
 * cover the parameter, each element once; a part can be empty.
 *
 * @param name the parameter's name in the model
 * @param shape the whole parameter's sizes
 * @param offset first element of the part
 * @param values the elements, one-dimensional and live: what is copied into it is trained on
 */
public record ParameterShard(String name, List<Long> shape, long offset, Tensor values) {
  public ParameterShard {
    shape = List.copyOf(shape);
  }
}
