import dev.plait.EngineState;
import dev.plait.LogLevel;
import dev.plait.PlaitException;

/** A host that does everything wrong: exceptions, no crash, flat memory. */
public final class Abuse {
  private static final int ENGINES = 1000;
  private static final long MAY_GROW_KB = 8192;

  private Abuse() {}

  public static void main(String[] arguments) {
    Tap.test("throws in a log handler", Abuse::throwInHandler);
    Tap.test("drops every handle", Abuse::dropAll);
    Tap.test("closes everything twice", Abuse::closeTwice);
    Tap.test("calls after close", Abuse::callAfterClose);
    Tap.test("makes and frees " + ENGINES + " engines", Abuse::engines);
    Tap.finish();
  }

  private static final class Outrage extends RuntimeException {
    private static final long serialVersionUID = 1;
  }

  private static void throwInHandler() {
    try (Rig rig = new Rig(Rig.LEAST)) {
      rig.context.setLogLevel(LogLevel.TRACE);
      Tap.thrown(Outrage.class, () -> rig.context.drainLogs(record -> {
        throw new Outrage();
      }));
      Tap.thrown(StackOverflowError.class, Abuse::overflowInHandler);
      Tap.equal(1L, rig.filled().engine.step(rig.batch).step());
      Tap.equal(0L, rig.context.drainLogs(record -> Tap.check(false, record)));
    }
  }

  private static void overflowInHandler() {
    try (Rig rig = new Rig(Rig.LEAST)) {
      rig.context.drainLogs(record -> overflow(0));
    }
  }

  private static int overflow(int depth) {
    return overflow(depth + 1) + 1;
  }

  private static void dropAll() throws InterruptedException {
    for (int i = 0; i < 10; i++) {
      new Rig(Rig.LEAST).filled();
      System.gc();
      Thread.sleep(1);
    }
    Rig.cycle();
  }

  private static void closeTwice() {
    Rig rig = new Rig(Rig.LEAST);
    rig.close();
    rig.close();
    Rig.cycle();
  }

  private static void callAfterClose() {
    Rig rig = new Rig(Rig.LEAST);
    rig.filled();
    rig.engine.abort();
    Tap.thrown(PlaitException.Aborted.class, () -> rig.engine.step(rig.batch));
    Tap.equal(EngineState.LOST, rig.engine.state());
    rig.close();
    Tap.thrown(IllegalStateException.class, () -> rig.engine.step(rig.batch));
    Tap.thrown(IllegalStateException.class, () -> rig.batch.map("tokens", 1, 9));
    Tap.thrown(IllegalStateException.class, () -> rig.context.drainLogs(record -> {}));
    Tap.thrown(IllegalStateException.class, () -> rig.config.get("seed"));
    Tap.thrown(IllegalStateException.class, rig.group::card);
    Rig.cycle();
  }

  private static void engines() throws Exception {
    for (int i = 0; i < ENGINES / 5; i++) Rig.cycle();
    long before = Rig.residentKilobytes();
    for (int i = 0; i < ENGINES; i++) Rig.cycle();
    long grown = Rig.residentKilobytes() - before;
    System.out.println("# resident memory: " + before + " kB before, " + grown + " kB more after");
    Tap.check(grown < MAY_GROW_KB, "grown by " + grown + " kB");
  }
}
