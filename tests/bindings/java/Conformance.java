import java.nio.file.Path;

/** The conformance list of the bindings: Conformance REFERENCE DIRECTORY. */
public final class Conformance {
  private Conformance() {}

  public static void main(String[] arguments) {
    Path directory = Path.of(arguments[1]);
    Reference reference = new Reference(arguments[0], directory);
    ValueTests.run();
    ErrorTests.run();
    FormatTests.run(reference);
    TrainTests.run(directory);
    CheckpointTests.run(reference, directory);
    ClosedTests.run(directory);
    LogTests.run(directory);
    LifeTests.run();
    Tap.finish();
  }
}
