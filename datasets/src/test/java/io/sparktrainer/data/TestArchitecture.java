package io.sparktrainer.data;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

@AnalyzeClasses(packages = "io.sparktrainer", importOptions = ImportOption.DoNotIncludeTests.class)
class TestArchitecture {
  @ArchTest
  static final ArchRule KNOWS_NO_TORCH =
      noClasses().should().dependOnClassesThat().resideInAnyPackage("org.bytedeco..", "jcuda..");

  @ArchTest
  static final ArchRule KNOWS_NOTHING_ELSE_OF_OURS =
      noClasses()
          .that()
          .resideInAPackage("io.sparktrainer.data..")
          .should()
          .dependOnClassesThat(
              com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage(
                      "io.sparktrainer..")
                  .and(
                      com.tngtech.archunit.core.domain.JavaClass.Predicates.resideOutsideOfPackage(
                          "io.sparktrainer.data"))
                  .as("other packages of ours"));

  @ArchTest
  static final ArchRule SPARK_INTERNALS_STAY_BEHIND_ONE_NAME =
      noClasses()
          .that()
          .haveNameNotMatching(".*\\.Catalyst\\w+(\\$.*)?")
          .should()
          .dependOnClassesThat()
          .resideInAnyPackage(
              "org.apache.spark.sql.catalyst..",
              "org.apache.spark.sql.execution..",
              "org.apache.spark.sql.vectorized..",
              "org.apache.spark.sql.classic..",
              "org.apache.spark.unsafe..");
}
