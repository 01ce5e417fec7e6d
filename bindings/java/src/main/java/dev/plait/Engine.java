package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_batch_spec;
import dev.plait.internal.plait_entry_info;
import dev.plait.internal.plait_metrics;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.ReadOnlyBufferException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * Trains: one engine for each group, which drives all ranks of this process. What is said to be called
 * in every process is collective: all processes of the group make the same calls in the same order.
 *
 * <p>{@link #close} frees, and aborts what runs; {@link #shutdown} is the orderly end before it.
 */
public final class Engine extends Handle {
  /** Floats that one view may hold. */
  private static final int LONGEST_PART = 1 << 28;

  private Engine(long address) {
    super("engine", address, Api::plait_engine_free, Api::plait_engine_abort);
  }

  /**
   * Builds the model, with weights drawn from the seed. Called in every process.
   *
   * @param group whose ranks it drives
   * @param config is copied, and compared across processes
   * @return a new engine
   */
  public static Engine create(Group group, Config config) {
    return create(group, config, null);
  }

  /**
   * Builds the model, with weights drawn from the seed. Called in every process.
   *
   * @param group whose ranks it drives
   * @param config is copied, and compared across processes
   * @param limit of this call, or null
   * @return a new engine
   */
  public static Engine create(Group group, Config config, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return new Engine(
        group.number(g -> config.number(keys -> Api.plait_engine_create(g, keys, timeout))));
  }

  /**
   * What it can do now.
   *
   * @return the state
   */
  public EngineState state() {
    return EngineState.of(number(Api::plait_engine_state));
  }

  /**
   * What the next step wants to be fed.
   *
   * @return rows, lengths, needs
   */
  public BatchSpec batchSpec() {
    return get(engine -> {
      try (plait_batch_spec spec = new plait_batch_spec()) {
        Api.plait_engine_batch_spec(engine, spec);
        return BatchSpec.of(spec);
      }
    });
  }

  /**
   * The rows that this process supplies in a local batch.
   *
   * @param globalRows rows of the global batch
   * @return runs of global rows, in the order in which the local batch holds them
   */
  public List<Span> batchSpans(long globalRows) {
    long count = batchSpec().spanCount();
    return get(engine -> {
      List<Span> spans = new ArrayList<>();
      long[] first = new long[1];
      long[] rows = new long[1];
      for (long i = 0; i < count; i++) {
        Api.plait_engine_batch_span(engine, globalRows, i, first, rows);
        spans.add(new Span(first[0], rows[0]));
      }
      return List.copyOf(spans);
    });
  }

  /** A call that measures, given the addresses of engine and batch. */
  @FunctionalInterface
  private interface Measured {
    int call(long engine, long batch, plait_metrics metrics);
  }

  private Metrics measure(Batch batch, Measured call) {
    return get(engine -> {
      try (plait_metrics metrics = new plait_metrics()) {
        long code = number(batch, address -> call.call(engine, address, metrics));
        return Metrics.of((int) code, metrics);
      }
    });
  }

  /**
   * One whole optimizer step, without a limit of its own. Called in every process.
   *
   * @param batch what to train on; null draws the next one of the dataset "train"
   * @return what it measured; with {@link Metrics#stopped}, this step was done and a stop is due
   */
  public Metrics step(Batch batch) {
    return step(batch, null);
  }

  /**
   * One whole optimizer step. Called in every process.
   *
   * @param batch what to train on; null draws the next one of the dataset "train"
   * @param limit of this call, or null
   * @return what it measured; with {@link Metrics#stopped}, this step was done and a stop is due
   */
  public Metrics step(Batch batch, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return measure(batch, (engine, b, metrics) -> Api.plait_engine_step(engine, b, timeout, metrics));
  }

  /**
   * Adds the gradients of a batch to those since the last update. Called in every process.
   *
   * @param batch a part of what to train on
   * @param limit of this call, or null
   * @return what it measured
   */
  public Metrics forwardBackward(Batch batch, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return measure(batch,
        (engine, b, metrics) -> Api.plait_engine_forward_backward(engine, b, timeout, metrics));
  }

  /**
   * Updates the weights by the gradients since the last update. Called in every process.
   *
   * @param limit of this call, or null
   * @return what it measured
   */
  public Metrics optimizerStep(Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return measure(null,
        (engine, b, metrics) -> Api.plait_engine_optimizer_step(engine, timeout, metrics));
  }

  /**
   * The loss alone; the state stays as it is. Called in every process.
   *
   * @param batch what to evaluate; null runs evaluate.batches batches of the dataset "evaluate"
   * @param limit of this call, or null
   * @return what it measured; with {@link Metrics#stopped}, nothing
   */
  public Metrics evaluate(Batch batch, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return measure(
        batch, (engine, b, metrics) -> Api.plait_engine_evaluate(engine, b, timeout, metrics));
  }

  /**
   * The negative log-likelihood of each target. Called in every process.
   *
   * @param batch what to score
   * @param limit of this call, or null
   * @return [rows, sequence length], row-major, 0 where the target is ignored; null where it was stopped
   */
  public float[] score(Batch batch, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    long count = Math.multiplyExact(batch.rows(), batchSpec().sequenceLength());
    try (NativeMemory memory = floats(count)) {
      long code = number(engine -> batch.number(
          b -> Api.plait_engine_score(engine, b, timeout, memory.head(), memory.size())));
      return code == Code.STOPPED ? null : copy(memory, count);
    }
  }

  /**
   * Continues a text with the current weights and keys {@code generate.*}. Called in every process.
   *
   * @param prompt at least one id
   * @param maxTokens how many new ids there may be
   * @param limit of this call, or null
   * @return the new ids; null where it was stopped
   */
  public int[] generate(int[] prompt, long maxTokens, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return get(
        engine -> Api.plait_engine_generate(engine, prompt, prompt.length, maxTokens, timeout));
  }

  /**
   * Makes a dataset the source of batches that are null. Called in every process.
   *
   * @param role "train" or "evaluate"
   * @param dataset null detaches
   * @param limit of this call, or null
   */
  public void attachDataset(String role, Dataset dataset, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    run(engine -> number(
        dataset, data -> Api.plait_engine_attach_dataset(engine, role, data, timeout)));
  }

  /**
   * Sets a key that may change at run time; it takes effect when the next step, save or load begins.
   * Make the same call in every process.
   *
   * @param key whose {@link KeyInfo#isMutable} is true
   * @param value its text; null is the default
   */
  public void set(String key, String value) {
    run(engine -> Api.plait_engine_set(engine, key, value));
  }

  /**
   * Sets an integer that goes into checkpoints.
   *
   * @param name of [a-z0-9_.-], at most 128
   * @param value any
   */
  public void setProperty(String name, long value) {
    run(engine -> Api.plait_engine_set_property(
        engine, name, Api.PLAIT_PROPERTY_INTEGER, value, 0, null));
  }

  /**
   * Sets a real number that goes into checkpoints.
   *
   * @param name of [a-z0-9_.-], at most 128
   * @param value any
   */
  public void setProperty(String name, double value) {
    run(engine ->
        Api.plait_engine_set_property(engine, name, Api.PLAIT_PROPERTY_REAL, 0, value, null));
  }

  /**
   * Sets a text that goes into checkpoints.
   *
   * @param name of [a-z0-9_.-], at most 128
   * @param value at most 64 KiB
   */
  public void setProperty(String name, String value) {
    run(engine ->
        Api.plait_engine_set_property(engine, name, Api.PLAIT_PROPERTY_TEXT, 0, 0, value));
  }

  /**
   * A counter; also of a lost engine.
   *
   * @param name one of report "counters"
   * @return its value
   */
  public double counter(String name) {
    return get(engine -> {
      double[] value = new double[1];
      Api.plait_engine_counter(engine, name, value);
      return value[0];
    });
  }

  /**
   * A report; also of a lost engine.
   *
   * @param kind "config", "ranks", "kernels", "memory", "schedule", "counters", "properties",
   *     "operations" or "trace"
   * @return JSON
   */
  public String report(String kind) {
    return get(engine -> Api.plait_engine_report(engine, kind));
  }

  /**
   * The tensors.
   *
   * @return pairs of logical tensor and kind, in order of name and kind, equal in every process
   */
  public List<Entry> tensors() {
    return get(engine -> {
      List<Entry> tensors = new ArrayList<>();
      try (plait_entry_info info = new plait_entry_info()) {
        for (long i = 0; i < Api.plait_engine_tensor_count(engine); i++) {
          Api.plait_engine_tensor_at(engine, i, info);
          tensors.add(Entry.of(info));
        }
      }
      return List.copyOf(tensors);
    });
  }

  /**
   * Reads a whole tensor as floats. Called in every process.
   *
   * @param tensor one of {@link #tensors}
   * @param limit of this call, or null
   * @return its elements, row-major
   */
  public float[] readFloats(Entry tensor, Duration limit) {
    try (NativeMemory memory = floats(tensor.elements())) {
      readTensor(tensor.name(), tensor.kind(), DataType.FLOAT32, memory, limit);
      return copy(memory, tensor.elements());
    }
  }

  /**
   * Replaces a whole tensor. Called in every process; the data of the process of rank 0 count.
   *
   * @param tensor one of {@link #tensors}
   * @param values its elements, row-major
   * @param limit of this call, or null
   */
  public void writeFloats(Entry tensor, float[] values, Duration limit) {
    try (NativeMemory memory = floats(values.length)) {
      for (int done = 0; done < values.length; done += LONGEST_PART) {
        int part = Math.min(values.length - done, LONGEST_PART);
        floatView(memory, done, part).put(values, done, part);
      }
      writeTensor(tensor.name(), tensor.kind(), DataType.FLOAT32, memory, limit);
    }
  }

  /**
   * Reads a whole tensor into a buffer. Called in every process.
   *
   * @param name of the logical tensor
   * @param kind one of {@link Kind}
   * @param dataType one of {@link DataType}, to which it is converted
   * @param into a direct buffer in native byte order that has exactly the room between position and
   *     limit, which stay; null only takes part
   * @param limit of this call, or null
   */
  public void readTensor(String name, int kind, int dataType, ByteBuffer into, Duration limit) {
    if (into != null && into.isReadOnly()) throw new ReadOnlyBufferException();
    read(name, kind, dataType, part(into), into == null ? 0 : into.remaining(), limit);
  }

  /**
   * Reads a whole tensor of any size. Called in every process.
   *
   * @param name of the logical tensor
   * @param kind one of {@link Kind}
   * @param dataType one of {@link DataType}, to which it is converted
   * @param into exactly as long as the tensor
   * @param limit of this call, or null
   */
  public void readTensor(String name, int kind, int dataType, NativeMemory into, Duration limit) {
    into.run(address -> read(name, kind, dataType, into.head(), into.size(), limit));
  }

  private void read(
      String name, int kind, int dataType, ByteBuffer into, long bytes, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    run(engine -> Api.plait_engine_tensor_read(engine, name, kind, dataType, timeout, into, bytes));
  }

  /**
   * Replaces a whole tensor by what is in a buffer. Called in every process; the data of the process of
   * rank 0 count.
   *
   * @param name of the logical tensor
   * @param kind one of {@link Kind}
   * @param dataType one of {@link DataType}, that of the data
   * @param from a direct buffer in native byte order, read from position to limit
   * @param limit of this call, or null
   */
  public void writeTensor(String name, int kind, int dataType, ByteBuffer from, Duration limit) {
    write(name, kind, dataType, part(from), from.remaining(), limit);
  }

  /**
   * Replaces a whole tensor of any size. Called in every process; the data of the process of rank 0
   * count.
   *
   * @param name of the logical tensor
   * @param kind one of {@link Kind}
   * @param dataType one of {@link DataType}, that of the data
   * @param from exactly as long as the tensor
   * @param limit of this call, or null
   */
  public void writeTensor(String name, int kind, int dataType, NativeMemory from, Duration limit) {
    from.run(address -> write(name, kind, dataType, from.head(), from.size(), limit));
  }

  private void write(
      String name, int kind, int dataType, ByteBuffer from, long bytes, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    run(engine -> Api.plait_engine_tensor_write(engine, name, kind, dataType, from, bytes, timeout));
  }

  /**
   * Takes a snapshot and writes it beside training. Called in every process.
   *
   * @param root directory of steps
   * @param limit of this call, or null
   * @return the operation, which ends when the step is durable
   */
  public Operation save(String root, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return new Operation(number(engine -> Api.plait_checkpoint_save(engine, root, timeout)));
  }

  /**
   * Loads state, whatever layout saved it. Called in every process.
   *
   * @param path a root (its newest valid step), one step of it, or a Hugging Face directory
   * @param limit of this call, or null
   * @return JSON about the step that was taken and newer ones that were not; null where it was stopped
   */
  public String load(String path, Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    return get(engine -> Api.plait_checkpoint_load(engine, path, timeout));
  }

  /** Asks for an orderly stop: the next step of all processes is the last before they may save. */
  public void requestStop() {
    run(Api::plait_engine_request_stop);
  }

  /** Ends at once: calls that run throw {@link PlaitException.Aborted}, and the engine is lost. */
  public void abort() {
    run(Api::plait_engine_abort);
  }

  /**
   * The orderly end: saves finish, and peers see no loss. Called in every process, before
   * {@link #close}.
   *
   * @param limit of this call, or null
   */
  public void shutdown(Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    run(engine -> Api.plait_engine_close(engine, timeout));
  }

  private static NativeMemory floats(long count) {
    return NativeMemory.allocate(Math.multiplyExact(count, (long) Float.BYTES));
  }

  private static float[] copy(NativeMemory memory, long count) {
    float[] values = new float[Math.toIntExact(count)];
    for (int done = 0; done < values.length; done += LONGEST_PART) {
      int part = Math.min(values.length - done, LONGEST_PART);
      floatView(memory, done, part).get(values, done, part);
    }
    return values;
  }

  private static FloatBuffer floatView(NativeMemory memory, long first, int count) {
    return memory.view(first * Float.BYTES, count * Float.BYTES).asFloatBuffer();
  }

  /** What C sees of a buffer: its address is that of the position. */
  private static ByteBuffer part(ByteBuffer buffer) {
    if (buffer == null) return null;
    if (buffer.order() != ByteOrder.nativeOrder()) {
      throw new IllegalArgumentException(
          "the buffer's byte order is not the machine's: order(ByteOrder.nativeOrder())");
    }
    return buffer.slice();
  }
}
