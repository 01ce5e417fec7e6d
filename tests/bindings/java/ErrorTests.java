import dev.plait.Code;
import dev.plait.Config;
import dev.plait.Context;
import dev.plait.Disposition;
import dev.plait.Engine;
import dev.plait.Group;
import dev.plait.Plait;
import dev.plait.PlaitException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** What the library refuses arrives as an exception with all of its parts. */
final class ErrorTests {
  private static final int THREADS = 8;
  private static final int FAILURES = 10_000;

  private ErrorTests() {}

  static void run() {
    Tap.test("an error has code, word, rank, disposition and details", ErrorTests::parts);
    Tap.test("another version is refused in words, before there is a handle", ErrorTests::version);
    Tap.test("what is not built is said beforehand, and refused", ErrorTests::notBuilt);
    Tap.test("codes have names, unknown ones too", ErrorTests::names);
    Tap.test(THREADS + " threads read " + FAILURES + " different errors each, all their own",
        ErrorTests::threads);
  }

  private static void parts() {
    try (Context context = Context.create(); Config config = Config.create(context)) {
      PlaitException.InvalidArgument error = Tap.thrown(PlaitException.InvalidArgument.class,
          () -> config.set("train.global_bach", "😀"));
      Tap.equal(Code.INVALID_ARGUMENT, error.code());
      Tap.equal("INVALID_ARGUMENT", error.codeName());
      Tap.equal("argument", error.word());
      Tap.equal(-1, error.rank());
      Tap.equal(Disposition.UNCHANGED, error.disposition());
      Tap.equal(0L, error.hostCode());
      Tap.check(error.getMessage().startsWith("argument: "), error.getMessage());
      Tap.check(error.details().startsWith("{") && error.details().contains("train.global_batch"),
          error.details());
      Tap.check(!error.subsystem().isEmpty(), "no subsystem");
      error = Tap.thrown(PlaitException.InvalidArgument.class, () -> config.set("seed", "😀"));
      Tap.check(error.getMessage().contains("😀"), error.getMessage());
    }
  }

  private static void version() {
    PlaitException error =
        Tap.thrown(PlaitException.class, () -> Context.create(Plait.API_VERSION + 1000));
    Tap.equal(Code.FAILED_PRECONDITION, error.code());
    Tap.equal("version_mismatch", error.word());
    Tap.check(error.getMessage().contains("0.1") && error.getMessage().contains("0.2"),
        error.getMessage());
    Tap.equal(Plait.API_VERSION, Plait.version() / 1000 * 1000);
  }

  private static void notBuilt() {
    Tap.equal(null, Plait.buildInfo("no such key"));
    Tap.check(!Plait.buildInfo("commit").isEmpty(), "no commit");
    if (Plait.hasFeature("cuda")) return;
    Tap.equal("not built", Plait.buildInfo("feature.cuda"));
    try (Context context = Context.create(); Config config = Config.create(context)) {
      config.load(Rig.LEAST);
      config.set("device", "cuda");
      PlaitException error = Tap.thrown(PlaitException.Unimplemented.class, () -> {
        try (Group group = Group.create(context, config, 0, 1, 1)) {
          Engine.create(group, config).close();
        }
      });
      Tap.equal("not_built", error.word());
    }
  }

  private static void names() {
    Tap.equal("OK", Code.name(Code.OK));
    Tap.equal("PEER_LOST", Code.name(Code.PEER_LOST));
    Tap.equal("UNKNOWN", Code.name(12345));
  }

  private static void threads() throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(THREADS);
    try (Context context = Context.create()) {
      List<Future<?>> all = new ArrayList<>();
      for (int thread = 0; thread < THREADS; thread++) {
        String mark = "thread-" + thread + "-";
        all.add(pool.submit(() -> fail(context, mark)));
      }
      for (Future<?> one : all) one.get();
    } finally {
      pool.shutdown();
    }
  }

  private static void fail(Context context, String mark) {
    try (Config config = Config.create(context)) {
      for (int i = 0; i < FAILURES; i++) {
        String wrong = mark + i + ".";
        PlaitException error =
            Tap.thrown(PlaitException.InvalidArgument.class, () -> config.set("seed", wrong));
        Tap.check(error.getMessage().contains(wrong), wrong + ": " + error.getMessage());
      }
    }
  }
}
