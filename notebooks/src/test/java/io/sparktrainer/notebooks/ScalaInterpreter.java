package io.sparktrainer.notebooks;

import java.io.PrintWriter;
import java.io.StringWriter;
import scala.tools.nsc.Settings;
import scala.tools.nsc.interpreter.IMain;
import scala.tools.nsc.interpreter.Results;
import scala.tools.nsc.interpreter.shell.ReplReporterImpl;

/** Runs Scala cells one after the other in one session, as a notebook does. */
final class ScalaInterpreter implements AutoCloseable {
  private final StringWriter output = new StringWriter();
  private final IMain interpreter;

  ScalaInterpreter() {
    Settings settings = new Settings();
    // surefire's own class path is one jar that only names the others
    settings.classpath().value_$eq(classPath());
    interpreter =
        new IMain(settings, new ReplReporterImpl(settings, new PrintWriter(output, true)));
  }

  private static String classPath() {
    return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
  }

  /**
   * Runs one cell.
   *
   * @return what the interpreter says about the cell's values
   * @throws AssertionError with the interpreter's messages, if the cell does not compile or throws
   */
  String run(String cell) {
    output.getBuffer().setLength(0);
    var result = interpreter.interpret(cell);
    if (result != Results.Success$.MODULE$) {
      throw new AssertionError(result + " in cell:\n" + cell + "\n\n" + output);
    }
    return output.toString();
  }

  @Override
  public void close() {
    interpreter.close();
  }
}
