package io.sparktrainer.spark;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;

import com.tngtech.archunit.core.importer.ImportOption;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchRule;

@AnalyzeClasses(
    packages = "io.sparktrainer.spark",
    importOptions = ImportOption.DoNotIncludeTests.class)
class TestArchitecture {
  @ArchTest
  static final ArchRule PACKAGES_HAVE_NO_CYCLES =
      layeredArchitecture()
          .consideringOnlyDependenciesInLayers()
          .layer("cli")
          .definedBy("io.sparktrainer.spark.cli")
          .layer("trainer")
          .definedBy("io.sparktrainer.spark")
          .layer("barrier")
          .definedBy("io.sparktrainer.spark.barrier")
          .layer("resource")
          .definedBy("io.sparktrainer.spark.resource")
          .layer("metrics")
          .definedBy("io.sparktrainer.spark.metrics")
          .layer("config")
          .definedBy("io.sparktrainer.spark.config")
          .whereLayer("cli")
          .mayNotBeAccessedByAnyLayer()
          .whereLayer("trainer")
          .mayOnlyBeAccessedByLayers("cli")
          .whereLayer("barrier")
          .mayOnlyBeAccessedByLayers("trainer")
          .whereLayer("resource")
          .mayOnlyBeAccessedByLayers("trainer", "barrier")
          .whereLayer("metrics")
          .mayOnlyBeAccessedByLayers("trainer")
          .whereLayer("config")
          .mayOnlyBeAccessedByLayers("trainer", "cli");

  @ArchTest
  static final ArchRule ONLY_THE_BARRIER_PACKAGE_KNOWS_BARRIER_TASKS =
      noClasses()
          .that()
          .resideOutsideOfPackage("io.sparktrainer.spark.barrier")
          .should()
          .dependOnClassesThat()
          .haveNameMatching("org\\.apache\\.spark\\.(BarrierTask.*|rdd\\.RDDBarrier)");

  @ArchTest
  static final ArchRule CONFIGURATION_KNOWS_NO_SPARK =
      noClasses()
          .that()
          .resideInAPackage("io.sparktrainer.spark.config")
          .should()
          .dependOnClassesThat()
          .resideInAPackage("org.apache.spark..");
}
