package io.sparktrainer.strategy;

import io.sparktrainer.comm.ByteExchange;
import io.sparktrainer.comm.Communicator;
import io.sparktrainer.nn.Block;
import io.sparktrainer.torch.DType;
import io.sparktrainer.torch.Tensors;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Tensor;

/**
 * Makes sure that all ranks hold the same model before the first collective over its tensors. A
 * collective over different sizes would end the process, so the check itself only exchanges byte
 * strings of agreed length, and every rank fails, not just those that differ from rank 0.
 */
public final class ModelFingerprint {
  private ModelFingerprint() {}

  /**
   * Compares names, types, shapes and trainability of all parameters and buffers over the ranks.
   *
   * @param options the strategy's options in words; they have to be equal too
   * @throws IllegalStateException on every rank, naming the first difference, if any rank differs
   */
  public static void requireEqual(Block model, String options, Communicator communicator) {
    if (communicator.worldSize() == 1) {
      return;
    }
    List<String> lines = describe(model, options);
    String text = String.join("\n", lines);
    byte[][] hashes = ByteExchange.allGather(communicator, sha256(text));
    if (Arrays.stream(hashes).allMatch(hash -> Arrays.equals(hash, hashes[0]))) {
      return;
    }
    byte[][] texts = ByteExchange.allGather(communicator, text.getBytes(StandardCharsets.UTF_8));
    throw new IllegalStateException(firstDifference(texts, communicator));
  }

  private static List<String> describe(Block model, String options) {
    List<String> lines = new ArrayList<>();
    lines.add("options " + options);
    model
        .parameters()
        .forEach(
            (name, tensor) ->
                lines.add(
                    "parameter %s: %s%s%s%s"
                        .formatted(
                            name,
                            DType.of(tensor),
                            Arrays.toString(Tensors.shape(tensor)),
                            layout(tensor),
                            tensor.requires_grad() ? "" : " frozen")));
    model
        .buffers()
        .forEach(
            (name, tensor) ->
                lines.add(
                    "buffer %s: %s%s"
                        .formatted(
                            name, DType.of(tensor), Arrays.toString(Tensors.shape(tensor)))));
    return lines;
  }

  /** Gradients are reduced in the memory layout of their parameter. */
  private static String layout(Tensor tensor) {
    return tensor.is_contiguous() ? "" : " strides " + Arrays.toString(Tensors.strides(tensor));
  }

  private static String firstDifference(byte[][] texts, Communicator communicator) {
    List<String> first = lines(texts[0]);
    for (int rank = 1; rank < texts.length; rank++) {
      List<String> other = lines(texts[rank]);
      for (int i = 0; i < Math.max(first.size(), other.size()); i++) {
        String expected = i < first.size() ? first.get(i) : "nothing more";
        String got = i < other.size() ? other.get(i) : "nothing more";
        if (!expected.equals(got)) {
          return "Cannot start training: expected the same model and options on all ranks, got \"%s\" on rank 0 and \"%s\" on rank %d (rank %d of %d). Build the model from the same configuration and code everywhere."
              .formatted(expected, got, rank, communicator.rank(), communicator.worldSize());
        }
      }
    }
    throw new IllegalStateException("Fingerprints differ, descriptions do not.");
  }

  private static List<String> lines(byte[] text) {
    return Arrays.asList(new String(text, StandardCharsets.UTF_8).split("\n", -1));
  }

  private static byte[] sha256(String text) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("Every Java platform has SHA-256.", e);
    }
  }
}
