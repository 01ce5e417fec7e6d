import dev.plait.Code;
import dev.plait.Context;
import dev.plait.Engine;
import dev.plait.EngineState;
import dev.plait.Group;
import dev.plait.Metrics;
import dev.plait.PlaitException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Stop and abort from other threads; the ends of handles. */
final class LifeTests {
  private static final int CYCLES = 1000;
  private static final long CYCLES_MAY_GROW_KB = 8192;
  private static final long LIMIT_NS = TimeUnit.SECONDS.toNanos(20);

  private LifeTests() {}

  static void run() {
    Tap.test("a stop from a second thread ends after a step, and another step trains on",
        LifeTests::stop);
    Tap.test("an abort from a third thread ends a step, and a new engine trains", LifeTests::abort);
    Tap.test("two steps at once: one is refused as busy", LifeTests::busy);
    Tap.test("handles are freed in every order", LifeTests::orders);
    Tap.test("a child works on when all its parents are closed", LifeTests::orphan);
    Tap.test("closing twice and from many threads at once frees once", LifeTests::twice);
    Tap.test("closing an engine during a step aborts the step", LifeTests::closeDuringStep);
    Tap.test("a forgotten handle is reported, and not freed", LifeTests::leak);
    Tap.test(CYCLES + " engines made and freed in flat memory", LifeTests::cycles);
  }

  /** Steps until one throws or says that it was stopped. */
  private static Metrics stepOn(Rig rig) {
    Metrics metrics;
    do {
      metrics = rig.filled().engine.step(rig.batch);
    } while (!metrics.stopped());
    return metrics;
  }

  private static <T> Future<T> inThread(Callable<T> body) {
    ExecutorService thread = Executors.newSingleThreadExecutor();
    try {
      return thread.submit(body);
    } finally {
      thread.shutdown();
    }
  }

  private static void stop() throws Exception {
    try (Rig rig = new Rig(Rig.SMALL)) {
      Future<Metrics> stepping = inThread(() -> stepOn(rig));
      while (rig.engine.state() != EngineState.RUNNING && !stepping.isDone()) Thread.onSpinWait();
      rig.engine.requestStop();
      Metrics last = stepping.get(20, TimeUnit.SECONDS);
      Tap.check(last.hasStep() && last.step() >= 1 && last.loss() > 0, last);
      Metrics next = rig.filled().engine.step(rig.batch);
      Tap.check(!next.stopped(), next);
      Tap.equal(last.step() + 1, next.step());
    }
  }

  private static void abort() throws Exception {
    try (Rig rig = new Rig(Rig.SMALL)) {
      Future<Metrics> stepping = inThread(() -> stepOn(rig));
      Future<Void> aborting = inThread(() -> {
        while (rig.engine.state() != EngineState.RUNNING && !stepping.isDone()) Thread.onSpinWait();
        rig.engine.abort();
        return null;
      });
      aborting.get(20, TimeUnit.SECONDS);
      Throwable cause = Tap.thrown(java.util.concurrent.ExecutionException.class,
          () -> stepping.get(20, TimeUnit.SECONDS)).getCause();
      Tap.check(cause instanceof PlaitException.Aborted, cause);
      Tap.equal(EngineState.LOST, rig.engine.state());
      Tap.equal("aborted", Tap.thrown(PlaitException.Aborted.class,
          () -> rig.engine.step(rig.batch)).word());
      Tap.check(rig.engine.report("operations").length() > 2, "no report of a lost engine");
      try (Group group = Group.create(rig.context, rig.config, 0, 1, 1);
          Engine engine = Engine.create(group, rig.config)) {
        Tap.equal(EngineState.READY, engine.state());
      }
    }
  }

  private static void busy() throws Exception {
    try (Rig rig = new Rig(Rig.SMALL)) {
      rig.filled();
      CountDownLatch seen = new CountDownLatch(1);
      Callable<Void> body = () -> {
        while (seen.getCount() > 0) {
          try {
            rig.engine.step(rig.batch);
          } catch (PlaitException error) {
            if (!error.word().equals("busy")) throw error;
            Tap.equal(Code.FAILED_PRECONDITION, error.code());
            seen.countDown();
          }
        }
        return null;
      };
      Future<Void> first = inThread(body);
      Future<Void> second = inThread(body);
      first.get(20, TimeUnit.SECONDS);
      second.get(20, TimeUnit.SECONDS);
    }
  }

  private static void orders() {
    int count = 0;
    for (List<Integer> order : permutations(List.of(0, 1, 2, 3, 4))) {
      Rig rig = new Rig(Rig.LEAST);
      List<Runnable> closes = List.of(rig.context::close, rig.config::close, rig.group::close,
          rig.engine::close, rig.batch::close);
      order.forEach(one -> closes.get(one).run());
      count++;
    }
    Tap.equal(120, count);
  }

  private static List<List<Integer>> permutations(List<Integer> items) {
    if (items.isEmpty()) return List.of(List.of());
    List<List<Integer>> all = new ArrayList<>();
    for (Integer first : items) {
      List<Integer> others = new ArrayList<>(items);
      others.remove(first);
      for (List<Integer> rest : permutations(others)) {
        List<Integer> order = new ArrayList<>(List.of(first));
        order.addAll(rest);
        all.add(order);
      }
    }
    return all;
  }

  private static void orphan() {
    try (Rig rig = new Rig(Rig.SMALL)) {
      rig.context.close();
      rig.config.close();
      rig.group.close();
      Tap.equal(1L, rig.filled().engine.step(rig.batch).step());
    }
  }

  private static void twice() throws Exception {
    for (int round = 0; round < 20; round++) {
      Rig rig = new Rig(Rig.LEAST);
      CountDownLatch start = new CountDownLatch(1);
      List<Future<Void>> closing = new ArrayList<>();
      for (int thread = 0; thread < 4; thread++) {
        closing.add(inThread(() -> {
          start.await();
          rig.close();
          rig.close();
          return null;
        }));
      }
      start.countDown();
      for (Future<Void> one : closing) one.get(20, TimeUnit.SECONDS);
      Tap.check(rig.engine.isClosed() && rig.context.isClosed(), "not closed");
    }
  }

  private static void closeDuringStep() throws Exception {
    int aborted = 0;
    for (int round = 0; round < 20; round++) {
      Rig rig = new Rig(Rig.SMALL);
      Future<Metrics> stepping = inThread(() -> stepOn(rig));
      while (rig.engine.state() != EngineState.RUNNING && !stepping.isDone()) Thread.onSpinWait();
      rig.engine.close();
      Throwable cause = Tap.thrown(java.util.concurrent.ExecutionException.class,
          () -> stepping.get(20, TimeUnit.SECONDS)).getCause();
      // Between two steps it meets a closed engine instead.
      Tap.check(cause instanceof PlaitException.Aborted || cause instanceof IllegalStateException,
          cause);
      if (cause instanceof PlaitException.Aborted) aborted++;
      rig.close();
    }
    Tap.check(aborted > 0, "no step was aborted in 20 rounds");
  }

  /** What the system logger of the binding says. */
  private static final class Reports extends Handler {
    private final List<String> texts = new ArrayList<>();

    @Override
    public synchronized void publish(LogRecord record) {
      texts.add(new java.util.logging.SimpleFormatter().formatMessage(record));
    }

    synchronized boolean holds(String text) {
      return texts.contains(text);
    }

    @Override
    public void flush() {}

    @Override
    public void close() {}
  }

  private static void forget() {
    Context.create();
  }

  private static void leak() throws Exception {
    Logger logger = Logger.getLogger("dev.plait");
    Reports reports = new Reports();
    logger.setUseParentHandlers(false);
    logger.addHandler(reports);
    forget();
    Context closed = Context.create();
    closed.close();
    closed = null;
    long end = System.nanoTime() + LIMIT_NS;
    String wanted = "context was never closed: its native memory stays until the process ends";
    while (!reports.holds(wanted)) {
      Tap.check(System.nanoTime() < end, "no report: " + reports.texts);
      System.gc();
      Thread.sleep(10);
    }
    Tap.equal(1, reports.texts.size());
    logger.removeHandler(reports);
    logger.setUseParentHandlers(true);
  }

  private static void cycles() throws Exception {
    for (int i = 0; i < CYCLES / 5; i++) Rig.cycle();
    long before = Rig.residentKilobytes();
    for (int i = 0; i < CYCLES; i++) Rig.cycle();
    long grown = Rig.residentKilobytes() - before;
    System.out.println("# resident memory: " + before + " kB before, " + grown + " kB more after");
    Tap.check(grown < CYCLES_MAY_GROW_KB, "grown by " + grown + " kB");
  }
}
