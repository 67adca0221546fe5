package io.sparktrainer.data;

import io.sparktrainer.data.ColumnPlan.Form;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/** Resolves a {@link DataSpec} against a schema; gathers every mistake before it fails. */
final class SchemaResolver {
  private final StructType schema;
  private final DataSpec spec;
  private final LengthProbe probe;
  private final List<String> problems = new ArrayList<>();
  private final List<String> selected = new ArrayList<>();
  private final List<ColumnPlan> plans = new ArrayList<>();
  private int offset;

  private SchemaResolver(StructType schema, DataSpec spec, LengthProbe probe) {
    this.schema = schema;
    this.spec = spec;
    this.probe = probe;
  }

  /**
   * Resolves.
   *
   * @throws IllegalArgumentException listing every column that is missing or can't be read
   */
  static ReadPlan resolve(StructType schema, DataSpec spec, LengthProbe probe) {
    return new SchemaResolver(schema, spec, probe).resolve();
  }

  private ReadPlan resolve() {
    List<TensorSpec> inputs = new ArrayList<>();
    for (InputSpec input : spec.inputs()) {
      TensorSpec tensor = tensor(input, "input '" + input.name() + "'");
      if (tensor != null) {
        inputs.add(tensor);
      }
    }
    TensorSpec label = spec.label() == null ? null : tensor(spec.label(), "label");
    TensorSpec weight = null;
    if (spec.weightColumn() != null) {
      InputSpec column =
          InputSpec.of(TensorSchema.WEIGHT, spec.weightColumn()).withType(ElementType.FLOAT32);
      weight = tensor(column, "weight");
      if (weight != null && !weight.rowShape().isEmpty()) {
        problems.add(
            "Cannot use column '%s' as weight: expected one number per row, got shape %s."
                .formatted(spec.weightColumn(), weight.rowShape()));
      }
    }
    int recordBytes = offset;
    ColumnPlan indicator = null;
    if (spec.validation() instanceof Validation.Column column) {
      indicator = indicator(column.column());
    }
    if (!problems.isEmpty()) {
      throw new IllegalArgumentException(String.join("\n", problems));
    }
    return new ReadPlan(
        new TensorSchema(inputs, label, weight), selected, plans, recordBytes, indicator);
  }

  private @Nullable ColumnPlan indicator(String column) {
    StructField field = field(column, "validation indicator");
    ColumnType type = field == null ? null : type(field, "validation indicator", null);
    if (field == null || type == null) {
      return null;
    }
    if (type.form() != Form.SCALAR) {
      problems.add(
          "Cannot use column '%s' as validation indicator: expected boolean or a number, got %s."
              .formatted(column, field.dataType().catalogString()));
    }
    return plan(field, type, new int[0], ElementType.FLOAT64, 0, null, null);
  }

  private @Nullable TensorSpec tensor(InputSpec input, String role) {
    List<StructField> fields = new ArrayList<>();
    List<ColumnType> types = new ArrayList<>();
    for (String column : input.columns()) {
      StructField field = field(column, role);
      ColumnType type = field == null ? null : type(field, role, input.image());
      if (field != null && type != null) {
        fields.add(field);
        types.add(type);
      }
    }
    if (fields.size() < input.columns().size()) {
      return null;
    }
    ElementType target = input.type() == null ? defaultType(input, types) : input.type();
    int start = offset;
    int elements = 0;
    int[] lastDims = new int[0];
    for (int i = 0; i < fields.size(); i++) {
      int[] dims = dims(fields.get(i), types.get(i), input);
      if (dims == null) {
        return null;
      }
      ColumnPlan plan =
          plan(fields.get(i), types.get(i), dims, target, offset, input.ragged(), input.image());
      plans.add(plan);
      offset = Math.addExact(offset, Math.multiplyExact(plan.elements(), target.bytes()));
      elements += plan.elements();
      lastDims = dims;
    }
    List<Long> shape = shape(input, fields.size(), lastDims, elements);
    TensorSpec tensor = new TensorSpec(input.name(), target, shape);
    if (tensor.rowElements() != elements) {
      problems.add(
          "Cannot shape %s as %s: expected %d elements per row, got %d from its columns."
              .formatted(role, shape, tensor.rowElements(), elements));
      offset = start;
      return null;
    }
    return tensor;
  }

  private ElementType defaultType(InputSpec input, List<ColumnType> types) {
    boolean isLabel = input.name().equals(TensorSchema.LABEL);
    return isLabel && types.stream().allMatch(type -> type.source().isIntegral())
        ? ElementType.INT64
        : ElementType.FLOAT32;
  }

  private static List<Long> shape(InputSpec input, int columns, int[] dims, int elements) {
    if (input.rowShape() != null) {
      return input.rowShape();
    }
    if (columns > 1) {
      return List.of((long) elements);
    }
    if (dims.length > 0) {
      return Arrays.stream(dims).asLongStream().boxed().toList();
    }
    boolean scalarPerRow =
        input.name().equals(TensorSchema.LABEL) || input.name().equals(TensorSchema.WEIGHT);
    return scalarPerRow ? List.of() : List.of(1L);
  }

  private int @Nullable [] dims(StructField field, ColumnType type, InputSpec input) {
    if (type.form() == Form.SCALAR) {
      return new int[0];
    }
    if (input.image() != null && type.isImage()) {
      return new int[] {input.image().channels(), input.image().height(), input.image().width()};
    }
    int[] dims = type.knownLength() > 0 ? new int[] {type.knownLength()} : null;
    if (dims == null && type.depth() == 1 && input.ragged() != null) {
      dims = new int[] {input.ragged().length()};
    }
    if (dims == null
        && type.depth() == 1
        && input.columns().size() == 1
        && input.rowShape() != null) {
      dims =
          new int[] {
            (int) input.rowShape().stream().mapToLong(Long::longValue).reduce(1, (a, b) -> a * b)
          };
    }
    if (dims == null) {
      dims = probe.dims(field.name(), field.dataType());
    }
    if (input.ragged() != null) {
      dims = dims.clone();
      dims[0] = input.ragged().length();
    }
    if (dims.length != type.depth() || Arrays.stream(dims).anyMatch(size -> size < 1)) {
      problems.add(
          "Cannot read column '%s': expected arrays of at least 1 element, got shape %s in the first row."
              .formatted(field.name(), Arrays.toString(dims)));
      return null;
    }
    return dims;
  }

  private ColumnPlan plan(
      StructField field,
      ColumnType type,
      int[] dims,
      ElementType target,
      int at,
      InputSpec.@Nullable Ragged ragged,
      @Nullable ImageSpec image) {
    int ordinal = selected.indexOf(field.name());
    if (ordinal < 0) {
      ordinal = selected.size();
      selected.add(field.name());
    }
    return new ColumnPlan(
        field.name(),
        ordinal,
        type.form(),
        type.source(),
        type.precision(),
        type.scale(),
        dims,
        target,
        at,
        ragged,
        image,
        spec.nulls(),
        spec.nans());
  }

  private @Nullable ColumnType type(StructField field, String role, @Nullable ImageSpec image) {
    try {
      return ColumnType.of(field, image);
    } catch (IllegalArgumentException e) {
      problems.add(
          "Cannot read column '%s' (%s): %s".formatted(field.name(), role, e.getMessage()));
      return null;
    }
  }

  private @Nullable StructField field(String column, String role) {
    StructField found = null;
    for (StructField field : schema.fields()) {
      if (field.name().equals(column)) {
        return field;
      }
      if (field.name().equalsIgnoreCase(column)) {
        found = field;
      }
    }
    if (found == null) {
      problems.add(
          "Cannot read column '%s' (%s): the DataFrame has no such column. It has: %s."
              .formatted(column, role, String.join(", ", schema.fieldNames())));
    }
    return found;
  }
}
