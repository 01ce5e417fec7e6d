import dev.plait.Config;
import dev.plait.Context;
import dev.plait.Engine;
import dev.plait.Group;
import dev.plait.PlaitException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * One of two processes that train together, one rank each, and meet by a rendezvous of their own: a
 * directory, where each leaves its card. The same program stands in other languages under samples/host;
 * any two of them make a pair.
 *
 * <pre>  pair CONFIG TEXT RANK DIRECTORY [--steps N]</pre>
 *
 * Prints the losses as Train does. Exit codes: 0 done, 1 an error, 2 usage.
 */
public final class Pair {
  private static final Duration LIMIT = Duration.ofSeconds(30);
  private static final int WORLD = 2;

  private Pair() {}

  public static void main(String[] arguments) throws InterruptedException {
    boolean isSteps = arguments.length == 6 && arguments[4].equals("--steps");
    long steps = isSteps ? Train.positive(arguments[5]) : 0;
    if (arguments.length != 4 && steps == 0 || !arguments[2].matches("[01]")) {
      System.err.println("usage: pair CONFIG TEXT RANK DIRECTORY [--steps N]");
      System.exit(2);
    }
    try {
      train(arguments[0], arguments[1], Integer.parseInt(arguments[2]), Path.of(arguments[3]), steps);
      return;
    } catch (PlaitException failure) {
      System.err.println("pair: " + failure.codeName() + ": " + failure.getMessage());
    } catch (IOException | IllegalArgumentException failure) {
      System.err.println("pair: " + failure.getMessage());
    }
    System.exit(1);
  }

  private static void train(String configPath, String textPath, int rank, Path directory, long steps)
      throws IOException, InterruptedException {
    try (Context context = Context.create();
        Config config = Config.create(context)) {
      config.load(Files.readString(Path.of(configPath)));
      config.set("layout.tensor", "1");
      config.set("layout.pipeline", "1");
      config.set("layout.data", String.valueOf(WORLD));
      if (steps == 0) steps = Long.parseLong(config.get("run.steps"));
      int[] text = Train.ids(textPath);
      try (Group group = Group.create(context, config, rank, 1, WORLD)) {
        publish(directory, rank, group.card());
        for (int one = 0; one < WORLD; one++) group.addCard(await(directory.resolve("card." + one)));
        group.commit(LIMIT);
        try (Engine engine = Engine.create(group, config)) {
          List<Double> losses = new ArrayList<>();
          Train.run(engine, text, steps, losses);
          System.out.println(Train.line(losses));
          engine.shutdown(null);
        }
      }
    }
  }

  /** The card appears under its name when it is whole. */
  private static void publish(Path directory, int rank, byte[] card) throws IOException {
    Path draft = directory.resolve("draft." + rank);
    Files.write(draft, card);
    Files.move(draft, directory.resolve("card." + rank), StandardCopyOption.ATOMIC_MOVE);
  }

  private static byte[] await(Path card) throws IOException, InterruptedException {
    long end = System.nanoTime() + LIMIT.toNanos();
    while (!Files.exists(card)) {
      if (System.nanoTime() > end) throw new IOException(card + " did not appear in time");
      Thread.sleep(10);
    }
    return Files.readAllBytes(card);
  }
}
