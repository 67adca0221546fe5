package io.sparktrainer.data;

/** Finds what the user has to know in the exceptions that Spark wraps around a task's failure. */
final class Failures {
  private Failures() {}

  /** The innermost complaint about the input where there is one, else the exception itself. */
  static RuntimeException clearest(Throwable failure) {
    for (Throwable e = failure; e != null; e = e.getCause()) {
      if (e instanceof IllegalArgumentException && e.getMessage() != null) {
        return new IllegalArgumentException(e.getMessage(), failure);
      }
    }
    return failure instanceof RuntimeException runtime
        ? runtime
        : new IllegalStateException("Cannot read the DataFrame: " + failure.getMessage(), failure);
  }
}
