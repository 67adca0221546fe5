package io.sparktrainer.spark.cli;

import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.HelpCommand;

/** {@code spark-train}: the commands, and how they end. */
@Command(
    name = "spark-train",
    description = "Trains PyTorch models inside Spark, without Python.",
    synopsisSubcommandLabel = "COMMAND",
    subcommands = {TrainCommand.class, PlanCommand.class, HelpCommand.class})
public final class SparkTrain {
  private SparkTrain() {}

  /** Runs one command and ends the JVM: 0 after success, 1 after a failure, 2 for wrong usage. */
  public static void main(String[] args) {
    System.exit(commandLine().execute(args));
  }

  static CommandLine commandLine() {
    return new CommandLine(new SparkTrain()).setExecutionExceptionHandler(new ErrorReport());
  }
}
