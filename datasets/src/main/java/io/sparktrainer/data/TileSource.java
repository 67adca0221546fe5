package io.sparktrainer.data;

/** Encodes a source partition tile by tile. */
interface TileSource {
  /**
   * Fills the tile from its start.
   *
   * @return records written, which may be 0 where rows were dropped; -1 at the end
   */
  int fill(Tile tile);
}
