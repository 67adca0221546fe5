package io.sparktrainer.spark.cli;

import picocli.CommandLine;
import picocli.CommandLine.IExecutionExceptionHandler;
import picocli.CommandLine.ParseResult;

/** Shows a failure as one message; the stack trace only with {@code --verbose}. */
final class ErrorReport implements IExecutionExceptionHandler {
  private static final int FAILURE = 1;

  @Override
  public int handleExecutionException(
      Exception failure, CommandLine commandLine, ParseResult arguments) {
    // The arguments handed in are those of spark-train itself, not of its command.
    if (commandLine.getParseResult().hasMatchedOption("--verbose")) {
      failure.printStackTrace(commandLine.getErr());
    } else {
      String message = failure.getMessage();
      commandLine.getErr().println(message == null ? failure.toString() : message);
    }
    commandLine.getErr().flush();
    return FAILURE;
  }
}
