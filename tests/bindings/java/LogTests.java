import dev.plait.Config;
import dev.plait.Context;
import dev.plait.LogLevel;
import dev.plait.LogRecord;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** Records are fetched by a handler on the caller's thread. */
final class LogTests {
  private static final int RING = 4096;
  private static final long CALLS = 1_000_000;
  private static final long CALLS_MAY_GROW_KB = 8192;

  private LogTests() {}

  static void run(Path directory) {
    Tap.test("records have time, level, rank, subsystem and message", LogTests::parts);
    Tap.test("what the ring lost is counted", () -> overflow(directory));
    Tap.test("what a handler throws arrives, and no other record is lost", () -> thrown(directory));
    Tap.test("a handler is called " + CALLS + " times and throws at last, in flat memory",
        () -> million(directory));
  }

  private static void parts() {
    try (Rig rig = new Rig(Rig.LEAST)) {
      List<LogRecord> records = new ArrayList<>();
      Tap.equal(1L, rig.context.drainLogs(records::add));
      LogRecord record = records.get(0);
      Tap.equal(LogLevel.INFO, record.level());
      Tap.equal(0, record.rank());
      Tap.equal("engine/trainer", record.subsystem());
      Tap.check(record.message().startsWith("engine ready: "), record.message());
      Tap.equal(0L, record.dropped());
      Duration age = Duration.between(record.time(), Instant.now());
      Tap.check(!age.isNegative() && age.toMinutes() < 5, age);
      Tap.equal(0L, rig.context.drainLogs(records::add));
    }
    try (Context context = Context.create(); Config config = Config.create(context)) {
      context.setLogLevel(LogLevel.ERROR);
      config.load(Rig.LEAST);
      Tap.equal(0L, context.drainLogs(record -> {}));
    }
  }

  /** A Hugging Face directory whose load writes one record for each of that many unknown keys. */
  private static String noisy(Path directory, int records) throws IOException {
    Path made = Files.createDirectories(directory.resolve("noisy-" + records));
    StringBuilder json = new StringBuilder("{\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_embd\": 8,"
        + " \"n_head\": 2, \"vocab_size\": 61, \"n_positions\": 16");
    for (int i = 0; i < records; i++) json.append(", \"unknown-😀-").append(i).append("\": 0");
    Files.writeString(made.resolve("config.json"), json.append("}"));
    return made.toString();
  }

  private static void overflow(Path directory) throws IOException {
    try (Context context = Context.create(); Config config = Config.create(context)) {
      config.loadHuggingFace(noisy(directory, RING + 904));
      List<LogRecord> records = new ArrayList<>();
      context.drainLogs(records::add);
      Tap.equal(RING + 1, records.size());
      Tap.equal(904L, records.get(0).dropped());
      Tap.equal(LogLevel.WARNING, records.get(1).level());
      Tap.equal(0L, records.get(1).dropped());
      Tap.check(records.stream().skip(1).allMatch(one -> one.message().contains("unknown-😀-")),
          records.get(1).message());
    }
  }

  private static final class Enough extends RuntimeException {
    private static final long serialVersionUID = 1;
  }

  /** Counts calls, all on one thread, and throws at one of them. */
  private static final class Counter implements Consumer<LogRecord> {
    private final Thread caller = Thread.currentThread();
    private final long last;
    private final Enough enough = new Enough();
    private long calls;

    Counter(long last) {
      this.last = last;
    }

    @Override
    public void accept(LogRecord record) {
      Tap.check(Thread.currentThread() == caller, "another thread");
      Tap.equal(0L, record.dropped());
      if (++calls == last) throw enough;
    }
  }

  private static void thrown(Path directory) throws IOException {
    try (Context context = Context.create(); Config config = Config.create(context)) {
      config.loadHuggingFace(noisy(directory, 1000));
      Counter counter = new Counter(300);
      Tap.check(Tap.thrown(Enough.class, () -> context.drainLogs(counter)) == counter.enough,
          "another exception");
      Tap.equal(700L, context.drainLogs(counter));
      Tap.equal(1000L, counter.calls);
    }
  }

  private static void million(Path directory) throws IOException {
    String noisy = noisy(directory, 4000);
    try (Context context = Context.create(); Config config = Config.create(context)) {
      Counter counter = new Counter(CALLS);
      long before = 0;
      Enough thrown = null;
      while (thrown == null) {
        if (counter.calls == CALLS / 5) before = Rig.residentKilobytes();
        config.loadHuggingFace(noisy);
        try {
          context.drainLogs(counter);
        } catch (Enough enough) {
          thrown = enough;
        }
      }
      Tap.check(thrown == counter.enough, "another exception");
      Tap.equal(CALLS, counter.calls);
      long grown = Rig.residentKilobytes() - before;
      System.out.println("# resident memory: " + before + " kB before, " + grown + " kB more after");
      Tap.check(before > 0 && grown < CALLS_MAY_GROW_KB, "grown by " + grown + " kB");
    }
  }
}
