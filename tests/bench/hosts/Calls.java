import dev.plait.Batch;
import dev.plait.BatchSpec;
import dev.plait.Config;
import dev.plait.Context;
import dev.plait.Engine;
import dev.plait.EngineState;
import dev.plait.Group;
import dev.plait.Plait;
import dev.plait.Scope;
import java.lang.reflect.Field;
import java.nio.Buffer;
import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import sun.misc.Unsafe;

/**
 * What a call costs in Java, and where a batch is filled; see calls.c.
 *
 * <pre>  calls CONFIG time CALLS TURNS
 *   calls CONFIG feed STEPS</pre>
 */
public final class Calls {
  private Calls() {}

  public static void main(String[] arguments) throws Exception {
    boolean isTime = arguments.length == 4 && arguments[1].equals("time");
    if (!isTime && !(arguments.length == 3 && arguments[1].equals("feed"))) {
      System.err.println("usage: calls CONFIG time CALLS TURNS | calls CONFIG feed STEPS");
      System.exit(2);
    }
    try (Context context = Context.create();
        Config config = Config.create(context)) {
      config.load(Files.readString(Path.of(arguments[0])));
      try (Group group = Group.create(context, config, 0, 1, 1);
          Engine engine = Engine.create(group, config)) {
        int number = Integer.parseInt(arguments[2]);
        if (isTime) {
          printTimes(engine, number, Integer.parseInt(arguments[3]));
        } else {
          printAddresses(engine, number);
        }
      }
    }
  }

  private static void printTimes(Engine engine, int calls, int turns) {
    int version = Plait.version();
    System.out.println("{\"state\": " + times(calls, turns, () -> engine.state() == EngineState.READY)
        + ", \"version\": " + times(calls, turns, () -> Plait.version() == version) + "}");
  }

  /** Nanoseconds of a call of each turn; {@code call} tells whether its answer was right. */
  private static List<Double> times(int calls, int turns, BooleanSupplier call) {
    List<Double> times = new ArrayList<>();
    for (int turn = 0; turn < turns; turn++) {
      int right = 0;
      long begin = System.nanoTime();
      for (int i = 0; i < calls; i++) {
        if (call.getAsBoolean()) right++;
      }
      long end = System.nanoTime();
      if (right != calls) throw new IllegalStateException("a call gave a wrong answer");
      times.add((double) (end - begin) / calls);
    }
    return times;
  }

  private static void printAddresses(Engine engine, int steps) throws ReflectiveOperationException {
    BatchSpec spec = engine.batchSpec();
    long rows = spec.globalRows();
    long columns = spec.sequenceLength() + 1;
    List<Long> addresses = new ArrayList<>();
    try (Batch batch = Batch.create(engine, Scope.GLOBAL)) {
      for (int step = 0; step < steps; step++) {
        IntBuffer tokens = batch.map("tokens", rows, columns);
        for (int i = 0; i < tokens.capacity(); i++) tokens.put(i, token(step, i));
        engine.step(batch);
        addresses.add(address(tokens));
      }
      int[] own = new int[(int) (rows * columns)];
      Arrays.setAll(own, i -> token(steps, i));
      batch.set("tokens", own, rows, columns);
      engine.step(batch);
    }
    System.out.println("{\"bytes\": " + 4 * rows * columns + ", \"addresses\": " + addresses + "}");
  }

  private static int token(int step, int i) {
    return (step + i) % 256;
  }

  /** Where the memory of a direct buffer begins, which Java tells nobody. */
  private static long address(IntBuffer buffer) throws ReflectiveOperationException {
    if (!buffer.isDirect()) throw new IllegalStateException("the memory is the virtual machine's");
    Field instance = Unsafe.class.getDeclaredField("theUnsafe");
    instance.setAccessible(true);
    Unsafe unsafe = (Unsafe) instance.get(null);
    return unsafe.getLong(buffer, unsafe.objectFieldOffset(Buffer.class.getDeclaredField("address")));
  }
}
