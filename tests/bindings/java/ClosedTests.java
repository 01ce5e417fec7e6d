import dev.plait.Batch;
import dev.plait.Checkpoint;
import dev.plait.Config;
import dev.plait.Context;
import dev.plait.Dataset;
import dev.plait.Engine;
import dev.plait.Entry;
import dev.plait.Group;
import dev.plait.LogLevel;
import dev.plait.NativeMemory;
import dev.plait.Operation;
import dev.plait.Plan;
import dev.plait.Tokenizer;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/** Use after close: every public method of every closed object throws, and nothing crashes. */
final class ClosedTests {
  private static final List<String> LEGAL_AFTER_CLOSE = List.of("close", "isClosed", "size");

  private ClosedTests() {}

  static void run(Path directory) {
    Tap.test("every method of every closed object throws IllegalStateException",
        () -> everything(directory));
    Tap.test("a closed object as an argument is refused, too", ClosedTests::argument);
  }

  private static void everything(Path directory) throws Exception {
    Path tokens = directory.resolve("closed.tokens");
    Files.write(tokens, new byte[2000]);
    int calls = 0;
    try (Rig rig = new Rig(Rig.LEAST); Rig open = new Rig(Rig.LEAST);
        NativeMemory memory = NativeMemory.allocate(8)) {
      Operation save = rig.engine.save(directory.resolve("closed").toString(), null);
      save.await();
      rig.config.set("data.train", tokens.toString());
      Checkpoint checkpoint =
          Checkpoint.open(rig.context, directory.resolve("closed").toString());
      List<AutoCloseable> closed = new ArrayList<>(List.<AutoCloseable>of(
          Plan.create(rig.context, rig.config, 1), save, checkpoint,
          Dataset.open(rig.context, rig.config, "train"),
          Tokenizer.open(rig.context, "byte", null), NativeMemory.allocate(64), rig.batch,
          rig.engine, rig.group, rig.config, rig.context));
      for (AutoCloseable one : closed) one.close();
      Map<Class<?>, Object> arguments = arguments(open);
      arguments.put(NativeMemory.class, memory);
      for (AutoCloseable one : closed) {
        for (Method method : one.getClass().getMethods()) {
          if (isTried(method)) {
            refuse(one, method, arguments);
            calls++;
          }
        }
      }
    }
    System.out.println("# " + calls + " methods");
    Tap.check(calls > 60, calls + " methods");
  }

  private static boolean isTried(Method method) {
    return method.getDeclaringClass().getName().startsWith("dev.plait.")
        && !Modifier.isStatic(method.getModifiers())
        && !LEGAL_AFTER_CLOSE.contains(method.getName());
  }

  /** Something sensible of each type; null for those that are not here. */
  private static Map<Class<?>, Object> arguments(Rig open) {
    Map<Class<?>, Object> arguments = new HashMap<>();
    arguments.put(String.class, "{}");
    arguments.put(int.class, 1);
    arguments.put(long.class, 1L);
    arguments.put(double.class, 1.0);
    arguments.put(boolean.class, true);
    arguments.put(int[].class, new int[1]);
    arguments.put(float[].class, new float[1]);
    arguments.put(byte[].class, new byte[1]);
    arguments.put(ByteBuffer.class, ByteBuffer.allocateDirect(8).order(ByteOrder.nativeOrder()));
    arguments.put(LogLevel.class, LogLevel.INFO);
    arguments.put(Consumer.class, (Consumer<Object>) record -> {});
    arguments.put(Entry.class, open.engine.tensors().get(0));
    arguments.put(Context.class, open.context);
    arguments.put(Config.class, open.config);
    arguments.put(Group.class, open.group);
    arguments.put(Engine.class, open.engine);
    arguments.put(Batch.class, open.batch);
    return arguments;
  }

  private static void refuse(Object closed, Method method, Map<Class<?>, Object> arguments)
      throws IllegalAccessException {
    Object[] values = new Object[method.getParameterCount()];
    for (int i = 0; i < values.length; i++) values[i] = arguments.get(method.getParameterTypes()[i]);
    Throwable thrown = null;
    try {
      method.invoke(closed, values);
    } catch (InvocationTargetException failure) {
      thrown = failure.getCause();
    }
    Tap.check(thrown instanceof IllegalStateException, method + ": " + thrown);
  }

  private static void argument() {
    try (Rig rig = new Rig(Rig.LEAST)) {
      rig.filled();
      rig.batch.close();
      Tap.thrown(IllegalStateException.class, () -> rig.engine.step(rig.batch));
      rig.config.close();
      Tap.thrown(IllegalStateException.class, () -> Group.create(rig.context, rig.config, 0, 1, 1));
    }
  }
}
