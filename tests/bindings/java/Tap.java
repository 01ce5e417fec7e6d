import java.util.Objects;

/** Runs tests and prints TAP: a line for each, and what went wrong behind those that failed. */
final class Tap {
  private static int failed;

  private Tap() {}

  @FunctionalInterface
  interface Body {
    void run() throws Exception;
  }

  /** A test passes when nothing is thrown. */
  static void test(String name, Body body) {
    try {
      body.run();
      System.out.println("ok - " + name);
    } catch (Throwable failure) {
      failed++;
      System.out.println("not ok - " + name);
      System.out.println("# " + failure);
      for (StackTraceElement frame : failure.getStackTrace()) {
        System.out.println("#   " + frame);
        if (frame.getFileName() != null && frame.getMethodName().startsWith("lambda$")) break;
      }
    }
  }

  /** Ends the program: 1 where a test failed. */
  static void finish() {
    System.out.flush();
    System.exit(failed == 0 ? 0 : 1);
  }

  static void check(boolean isTrue, Object what) {
    if (!isTrue) throw new AssertionError(what);
  }

  static void equal(Object wanted, Object got) {
    check(Objects.equals(wanted, got), "wanted " + wanted + ", got " + got);
  }

  /** What the body throws, which must be of that type. */
  static <T extends Throwable> T thrown(Class<T> type, Body body) {
    try {
      body.run();
    } catch (Throwable failure) {
      if (type.isInstance(failure)) return type.cast(failure);
      throw new AssertionError("wanted " + type.getName() + ", got " + failure, failure);
    }
    throw new AssertionError("wanted " + type.getName() + ", but nothing was thrown");
  }
}
