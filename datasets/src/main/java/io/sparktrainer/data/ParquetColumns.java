package io.sparktrainer.data;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.parquet.column.ColumnDescriptor;
import org.apache.parquet.schema.GroupType;
import org.apache.parquet.schema.LogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.IntLogicalTypeAnnotation;
import org.apache.parquet.schema.LogicalTypeAnnotation.ListLogicalTypeAnnotation;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName;
import org.apache.parquet.schema.Type;
import org.apache.spark.ml.linalg.SQLDataTypes;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.UserDefinedType;
import org.jspecify.annotations.Nullable;

/**
 * The columns of one Parquet file that a read needs, where each lies in the file exactly as Spark
 * would read it without conversion: numbers of the same type, one level of lists of them in
 * Parquet's three-level form, and ML vectors.
 *
 * @param vectors in the order of the schema
 * @param leaves all leaf columns below them
 */
record ParquetColumns(List<CatalystParquetVector> vectors, List<ParquetLeaf> leaves) {
  private static final Set<DataType> NUMBERS =
      Set.of(
          DataTypes.BooleanType,
          DataTypes.ByteType,
          DataTypes.ShortType,
          DataTypes.IntegerType,
          DataTypes.LongType,
          DataTypes.FloatType,
          DataTypes.DoubleType);

  /** Whether columns of this type can be read at all, in a file that holds them plainly. */
  static boolean canHold(DataType type) {
    return NUMBERS.contains(type)
        || (type instanceof ArrayType array && NUMBERS.contains(array.elementType()))
        || type.equals(SQLDataTypes.VectorType());
  }

  /**
   * Finds the columns in a file; null where one of them needs Spark's own reader.
   *
   * @param arrays that the file's pages come in
   */
  static @Nullable ParquetColumns of(MessageType file, StructType schema, PageArrays arrays) {
    Finder finder = new Finder(file, arrays);
    List<CatalystParquetVector> vectors = new ArrayList<>();
    for (StructField field : schema.fields()) {
      CatalystParquetVector vector =
          finder.find(file, new String[0], field.name(), field.dataType());
      if (vector == null) {
        return null;
      }
      vectors.add(vector);
    }
    return new ParquetColumns(vectors, finder.leaves);
  }

  private static final class Finder {
    private final MessageType file;
    private final PageArrays arrays;
    private final List<ParquetLeaf> leaves = new ArrayList<>();

    Finder(MessageType file, PageArrays arrays) {
      this.file = file;
      this.arrays = arrays;
    }

    @Nullable CatalystParquetVector find(
        GroupType group, String[] path, String name, DataType type) {
      // another spelling in the file is Spark's to judge
      long named =
          group.getFields().stream().filter(f -> f.getName().equalsIgnoreCase(name)).count();
      if (named != 1 || !group.containsField(name)) {
        return null;
      }
      Type field = group.getType(name);
      String[] here = append(path, name);
      if (type instanceof ArrayType array) {
        return lists(field, here, array);
      }
      if (type instanceof UserDefinedType<?> vector && canHold(type)) {
        return struct(field, here, type, (StructType) vector.sqlType());
      }
      if (!isNumber(field, type)) {
        return null;
      }
      ParquetLeaf leaf = ParquetLeaf.numbers(file.getColumnDescription(here), arrays);
      leaves.add(leaf);
      return CatalystParquetVector.numbers(type, leaf);
    }

    private @Nullable CatalystParquetVector lists(Type field, String[] path, ArrayType type) {
      if (field.isPrimitive()
          || field.isRepetition(Type.Repetition.REPEATED)
          || !(field.getLogicalTypeAnnotation() instanceof ListLogicalTypeAnnotation)
          || field.asGroupType().getFieldCount() != 1) {
        return null;
      }
      Type list = field.asGroupType().getType(0);
      if (list.isPrimitive()
          || !list.isRepetition(Type.Repetition.REPEATED)
          || !list.getName().equals("list")
          || list.asGroupType().getFieldCount() != 1) {
        return null;
      }
      Type element = list.asGroupType().getType(0);
      if (!isNumber(element, type.elementType())) {
        return null;
      }
      String[] leafPath = append(append(path, list.getName()), element.getName());
      ColumnDescriptor column = file.getColumnDescription(leafPath);
      ParquetLeaf leaf = ParquetLeaf.lists(column, file.getMaxDefinitionLevel(path), arrays);
      leaves.add(leaf);
      return CatalystParquetVector.lists(type, type.elementType(), leaf);
    }

    private @Nullable CatalystParquetVector struct(
        Type field, String[] path, DataType type, StructType inner) {
      if (field.isPrimitive()
          || field.isRepetition(Type.Repetition.REPEATED)
          || field.getLogicalTypeAnnotation() != null
          || field.asGroupType().getFieldCount() != inner.size()
          || !field.asGroupType().getType(0).isRepetition(Type.Repetition.REQUIRED)) {
        return null;
      }
      CatalystParquetVector[] children = new CatalystParquetVector[inner.size()];
      for (int i = 0; i < children.length; i++) {
        StructField child = inner.apply(i);
        CatalystParquetVector found =
            find(field.asGroupType(), path, child.name(), child.dataType());
        if (found == null) {
          return null;
        }
        children[i] = found;
      }
      return CatalystParquetVector.struct(type, children);
    }

    private static boolean isNumber(Type field, DataType type) {
      if (!field.isPrimitive() || field.isRepetition(Type.Repetition.REPEATED)) {
        return false;
      }
      PrimitiveTypeName found = field.asPrimitiveType().getPrimitiveTypeName();
      LogicalTypeAnnotation meaning = field.getLogicalTypeAnnotation();
      if (DataTypes.FloatType.equals(type)) {
        return found == PrimitiveTypeName.FLOAT && meaning == null;
      }
      if (DataTypes.DoubleType.equals(type)) {
        return found == PrimitiveTypeName.DOUBLE && meaning == null;
      }
      if (DataTypes.BooleanType.equals(type)) {
        return found == PrimitiveTypeName.BOOLEAN && meaning == null;
      }
      if (DataTypes.LongType.equals(type)) {
        return found == PrimitiveTypeName.INT64 && (meaning == null || isSigned(meaning, 64));
      }
      if (DataTypes.IntegerType.equals(type)) {
        return found == PrimitiveTypeName.INT32 && (meaning == null || isSigned(meaning, 32));
      }
      if (DataTypes.ShortType.equals(type)) {
        return found == PrimitiveTypeName.INT32 && isSigned(meaning, 16);
      }
      return DataTypes.ByteType.equals(type)
          && found == PrimitiveTypeName.INT32
          && isSigned(meaning, 8);
    }

    private static boolean isSigned(@Nullable LogicalTypeAnnotation meaning, int bits) {
      return meaning instanceof IntLogicalTypeAnnotation number
          && number.isSigned()
          && number.getBitWidth() == bits;
    }

    private static String[] append(String[] path, String name) {
      String[] longer = java.util.Arrays.copyOf(path, path.length + 1);
      longer[path.length] = name;
      return longer;
    }
  }
}
