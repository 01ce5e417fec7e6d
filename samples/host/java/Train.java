import dev.plait.Batch;
import dev.plait.BatchSpec;
import dev.plait.Config;
import dev.plait.Context;
import dev.plait.Engine;
import dev.plait.Group;
import dev.plait.Metrics;
import dev.plait.Operation;
import dev.plait.PlaitException;
import dev.plait.Scope;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * Trains on the bytes of a file, which it holds in memory. The same program stands in every host
 * language under samples/host, and all of them print the same line.
 *
 * <pre>  train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]</pre>
 *
 * Progress goes to stderr; the losses go to stdout, in one line. SIGINT and SIGTERM end the run after the
 * step in progress; with --checkpoint the state is saved then, as it is at the end. Exit codes: 0 done,
 * 1 an error, 2 usage, 3 stopped.
 */
public final class Train {
  private String configPath;
  private String textPath;
  private String root;
  private long steps; // 0: as run.steps of the configuration says
  private boolean isResumed;

  private Train() {}

  public static void main(String[] arguments) {
    Train run = new Train();
    if (!run.read(arguments)) {
      System.err.println("usage: train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]");
      System.exit(2);
    }
    try {
      System.exit(run.train());
    } catch (PlaitException failure) {
      System.err.println("train: " + failure.codeName() + ": " + failure.getMessage());
    } catch (IOException failure) {
      System.err.println("train: cannot read " + failure.getMessage());
    } catch (IllegalArgumentException failure) {
      System.err.println("train: " + failure.getMessage());
    }
    System.exit(1);
  }

  private boolean read(String[] arguments) {
    for (int i = 0; i < arguments.length; i++) {
      String argument = arguments[i];
      if (argument.equals("--resume")) {
        isResumed = true;
      } else if (argument.equals("--steps") && i + 1 < arguments.length) {
        steps = positive(arguments[++i]);
        if (steps == 0) return false;
      } else if (argument.equals("--checkpoint") && i + 1 < arguments.length) {
        root = arguments[++i];
      } else if (argument.startsWith("-") || textPath != null) {
        return false;
      } else if (configPath == null) {
        configPath = argument;
      } else {
        textPath = argument;
      }
    }
    return textPath != null && (root != null || !isResumed);
  }

  /** A number from 1 on, 0 for any other text. */
  static long positive(String text) {
    return text.matches("0*[1-9][0-9]{0,17}") ? Long.parseLong(text) : 0;
  }

  private int train() throws IOException {
    try (Context context = Context.create();
        Config config = Config.create(context)) {
      config.load(Files.readString(Path.of(configPath)));
      if (steps == 0) steps = Long.parseLong(config.get("run.steps"));
      int[] text = ids(textPath);
      int world = world(config);
      try (Group group = Group.create(context, config, 0, world, world);
          Engine engine = Engine.create(group, config)) {
        if (isResumed) engine.load(root, null);
        stopOnSignal(engine);
        List<Double> losses = new ArrayList<>();
        boolean isStopped = run(engine, text, steps, losses);
        if (root != null) {
          try (Operation save = engine.save(root, null)) {
            save.await();
          }
        }
        System.out.println(line(losses));
        engine.shutdown(null);
        return isStopped ? 3 : 0;
      }
    }
  }

  static int world(Config config) {
    return Integer.parseInt(config.get("layout.tensor"))
        * Integer.parseInt(config.get("layout.pipeline"))
        * Integer.parseInt(config.get("layout.data"));
  }

  /** The bytes of a file as ids. */
  static int[] ids(String path) throws IOException {
    byte[] bytes = Files.readAllBytes(Path.of(path));
    int[] ids = new int[bytes.length];
    for (int i = 0; i < ids.length; i++) ids[i] = Byte.toUnsignedInt(bytes[i]);
    return ids;
  }

  /**
   * SIGINT and SIGTERM ask for a stop, and the main thread ends the program with a code of its own. A
   * shutdown hook could not do that: the JVM would be on its way out with 128 + the signal's number
   * while the step still runs. The class is the one that every JDK has for this (module
   * jdk.unsupported); its handlers run on a thread of the JVM, where any call is allowed.
   */
  private static void stopOnSignal(Engine engine) {
    for (String name : List.of("INT", "TERM")) {
      sun.misc.Signal.handle(new sun.misc.Signal(name), signal -> {
        try {
          engine.requestStop();
        } catch (IllegalStateException closed) {
          // The run is over.
        }
      });
    }
  }

  /** Trains up to step {@code steps}; true where it was stopped before. */
  static boolean run(Engine engine, int[] text, long steps, List<Double> losses) {
    try (Batch batch = Batch.create(engine, Scope.GLOBAL)) {
      BatchSpec spec = engine.batchSpec();
      while (spec.firstSample() / spec.globalRows() < steps) {
        fill(batch, spec, text);
        Metrics metrics = engine.step(batch);
        losses.add(metrics.loss());
        System.err.printf(Locale.ROOT, "step %d/%d loss %.4f | %.0f tokens/s%n", metrics.step(), steps,
            metrics.loss(), metrics.tokensPerSecond());
        if (metrics.stopped()) return true;
        spec = engine.batchSpec();
      }
      return false;
    }
  }

  /** Fills the batch's own memory: sequence j of the run begins at id j · s, round and round. */
  private static void fill(Batch batch, BatchSpec spec, int[] text) {
    int length = (int) spec.sequenceLength();
    if (text.length < length + 1) {
      throw new IllegalArgumentException("the text holds fewer than " + (length + 1) + " bytes");
    }
    IntBuffer tokens = batch.map("tokens", spec.globalRows(), length + 1);
    for (long row = 0; row < spec.globalRows(); row++) {
      long first = (spec.firstSample() + row) * length % (text.length - length);
      tokens.put(text, (int) first, length + 1);
    }
  }

  /** The losses as C's %.17g prints them. */
  static String line(List<Double> losses) {
    return losses.stream().map(Train::seventeenDigits).collect(Collectors.joining(" "));
  }

  static String seventeenDigits(double value) {
    if (Double.isNaN(value)) return "nan";
    if (Double.isInfinite(value)) return value > 0 ? "inf" : "-inf";
    if (value == 0) return 1 / value > 0 ? "0" : "-0";
    BigDecimal rounded = new BigDecimal(value)
        .round(new MathContext(17, RoundingMode.HALF_EVEN)).stripTrailingZeros();
    int exponent = rounded.precision() - rounded.scale() - 1;
    if (exponent >= -4 && exponent < 17) return rounded.toPlainString();
    String digits = rounded.unscaledValue().abs().toString();
    String fraction = digits.length() == 1 ? "" : "." + digits.substring(1);
    return (value < 0 ? "-" : "") + digits.charAt(0) + fraction
        + String.format(Locale.ROOT, "e%+03d", exponent);
  }
}
