package io.sparktrainer.notebooks;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A notebook's Scala cells, from Jupyter's format or Zeppelin's. */
record Notebook(List<String> codeCells) {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String SPARK_PARAGRAPH = "%spark\n";

  /** Reads nbformat 4, which Databricks and Zeppelin import. */
  static Notebook readJupyter(Path file) throws IOException {
    List<String> cells = new ArrayList<>();
    for (JsonNode cell : JSON.readTree(file.toFile()).path("cells")) {
      if (cell.path("cell_type").asText().equals("code")) {
        StringBuilder source = new StringBuilder();
        cell.path("source").forEach(line -> source.append(line.asText()));
        cells.add(source.toString());
      }
    }
    return new Notebook(cells);
  }

  /** Reads a Zeppelin note. */
  static Notebook readZeppelin(Path file) throws IOException {
    List<String> cells = new ArrayList<>();
    for (JsonNode paragraph : JSON.readTree(file.toFile()).path("paragraphs")) {
      String text = paragraph.path("text").asText();
      if (text.startsWith(SPARK_PARAGRAPH)) {
        cells.add(text.substring(SPARK_PARAGRAPH.length()));
      }
    }
    return new Notebook(cells);
  }
}
