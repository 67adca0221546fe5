package io.sparktrainer.data;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.parquet.bytes.ByteBufferInputStream;
import org.apache.parquet.bytes.BytesInput;
import org.apache.parquet.compression.CompressionCodecFactory;
import org.apache.parquet.hadoop.metadata.CompressionCodecName;

/**
 * Decompresses Snappy pages, Spark's default, from array to array. Hadoop's way, which serves all
 * other codecs, reads the configuration and copies through direct buffers for every page.
 */
final class ParquetCodecs implements CompressionCodecFactory {
  private final CompressionCodecFactory others;
  private final PageArrays arrays;

  /**
   * Serves the readers of one task.
   *
   * @param others serves all other codecs
   * @param arrays pages are decompressed into
   */
  ParquetCodecs(CompressionCodecFactory others, PageArrays arrays) {
    this.others = others;
    this.arrays = arrays;
  }

  @Override
  public BytesInputCompressor getCompressor(CompressionCodecName codec) {
    return others.getCompressor(codec);
  }

  @Override
  public BytesInputDecompressor getDecompressor(CompressionCodecName codec) {
    return codec == CompressionCodecName.SNAPPY
        ? new SnappyPages(arrays)
        : others.getDecompressor(codec);
  }

  @Override
  public void release() {
    others.release();
  }

  private record SnappyPages(PageArrays arrays) implements BytesInputDecompressor {
    @Override
    public BytesInput decompress(BytesInput compressed, int size) throws IOException {
      ByteBufferInputStream stream = compressed.toInputStream();
      ByteBuffer bytes = stream.slice(stream.available());
      if (!bytes.hasArray()) {
        bytes = ByteBuffer.allocate(bytes.remaining()).put(bytes).flip();
      }
      SnappyDecoder decoder =
          new SnappyDecoder(
              bytes.array(), bytes.arrayOffset() + bytes.position(), bytes.remaining());
      if (decoder.size() != size) {
        throw new IOException(
            "a page was to hold %d bytes, and holds %d".formatted(size, decoder.size()));
      }
      byte[] page = arrays.take(size);
      decoder.decompress(page);
      return BytesInput.from(page, 0, size);
    }

    @Override
    public void decompress(ByteBuffer in, int compressedSize, ByteBuffer out, int size)
        throws IOException {
      ByteBuffer page = in.slice().limit(compressedSize);
      out.put(decompress(BytesInput.from(page), size).toInputStream().slice(size));
      in.position(in.position() + compressedSize);
    }

    @Override
    public void release() {}
  }
}
