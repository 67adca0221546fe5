package io.sparktrainer;

import static com.tngtech.archunit.base.DescribedPredicate.describe;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.assignableTo;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.methods;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.Architectures.layeredArchitecture;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;

import com.tngtech.archunit.core.importer.ImportOption.DoNotIncludeTests;
import com.tngtech.archunit.junit.AnalyzeClasses;
import com.tngtech.archunit.junit.ArchTest;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ArchRule;
import org.bytedeco.pytorch.TensorBase;
import org.bytedeco.pytorch.TensorTensorHook;
import org.bytedeco.pytorch.VoidTensorHook;

/**
 * Who may use whom: torch below, then nn, optim, comm and checkpoint, then strategy, the
 * strategies, the planner, and engine on top.
 */
@AnalyzeClasses(packages = "io.sparktrainer", importOptions = DoNotIncludeTests.class)
class TestArchitecture {
  private static final String TORCH = "io.sparktrainer.torch";
  private static final String PLAN = "io.sparktrainer.strategy.plan";

  @ArchTest
  static final ArchRule LAYERS =
      layeredArchitecture()
          .consideringOnlyDependenciesInAnyPackage("io.sparktrainer..")
          .layer("torch")
          .definedBy(TORCH)
          .layer("nn")
          .definedBy("io.sparktrainer.nn")
          .layer("optim")
          .definedBy("io.sparktrainer.optim")
          .layer("comm")
          .definedBy("io.sparktrainer.comm")
          .layer("checkpoint")
          .definedBy("io.sparktrainer.checkpoint")
          .layer("strategy")
          .definedBy("io.sparktrainer.strategy")
          .layer("strategies")
          .definedBy(
              "io.sparktrainer.strategy.single",
              "io.sparktrainer.strategy.dp",
              "io.sparktrainer.strategy.ddp",
              "io.sparktrainer.strategy.fsdp")
          .layer("plan")
          .definedBy(PLAN)
          .layer("engine")
          .definedBy("io.sparktrainer.engine")
          .ensureAllClassesAreContainedInArchitecture()
          .whereLayer("torch")
          .mayNotAccessAnyLayer()
          .whereLayer("nn")
          .mayOnlyAccessLayers("torch")
          .whereLayer("optim")
          .mayOnlyAccessLayers("torch")
          .whereLayer("comm")
          .mayOnlyAccessLayers("torch")
          .whereLayer("checkpoint")
          .mayOnlyAccessLayers("torch")
          .whereLayer("strategy")
          .mayOnlyAccessLayers("nn", "optim", "comm", "torch")
          .whereLayer("strategies")
          .mayOnlyAccessLayers("strategy", "nn", "optim", "comm", "torch")
          .whereLayer("plan")
          .mayOnlyAccessLayers("strategies", "strategy", "nn", "optim", "comm", "torch")
          .whereLayer("engine")
          .mayNotBeAccessedByAnyLayer();

  /** The planner is no strategy: it foretells what they will do, by their own arithmetic. */
  @ArchTest
  static final ArchRule STRATEGIES_DO_NOT_KNOW_EACH_OTHER =
      slices()
          .matching("io.sparktrainer.strategy.(*)..")
          .that(describe("are strategies", slice -> !slice.getNamePart(1).equals("plan")))
          .should()
          .notDependOnEachOther();

  @ArchTest
  static final ArchRule NO_CYCLES =
      slices().matching("io.sparktrainer.(**)").should().beFreeOfCycles();

  @ArchTest
  static final ArchRule ONLY_TORCH_OPENS_POINTER_SCOPES =
      noClasses()
          .that()
          .resideOutsideOfPackage(TORCH)
          .should()
          .dependOnClassesThat()
          .haveFullyQualifiedName("org.bytedeco.javacpp.PointerScope");

  /** JCuda and CUDA's bindings are not on every class path. */
  @ArchTest
  static final ArchRule ONLY_ONE_CLASS_NAMES_JCUDA =
      noClasses()
          .that()
          .doNotHaveFullyQualifiedName(TORCH + ".CudaDriver")
          .should()
          .dependOnClassesThat()
          .resideInAPackage("jcuda..");

  /** What libtorch hands to a hook would else be held until the scope around backward closes. */
  @ArchTest
  static final ArchRule HOOKS_CLOSE_THEIR_ARGUMENT =
      methods()
          .that()
          .haveName("call")
          .and()
          .areDeclaredInClassesThat(
              assignableTo(VoidTensorHook.class).or(assignableTo(TensorTensorHook.class)))
          .should(
              ArchCondition.from(
                  describe(
                      "close their argument",
                      method ->
                          method.getMethodCallsFromSelf().stream()
                              .anyMatch(
                                  call ->
                                      call.getName().equals("close")
                                          && call.getTargetOwner()
                                              .isEquivalentTo(TensorBase.class)))));

  @ArchTest
  static final ArchRule NOTHING_KNOWS_SPARK =
      noClasses().should().dependOnClassesThat().resideInAPackage("org.apache.spark..");
}
