package dev.plait;

import dev.plait.internal.Api;
import java.nio.IntBuffer;

/**
 * Token ids for one call of an engine, row-major: "tokens" [rows, sequence length + 1], or [rows,
 * sequence length] beside "targets" [rows, sequence length], where -1 is ignored; "documents" is shaped
 * as tokens. The engine copies what it needs: a batch may be changed when the call has returned.
 */
public final class Batch extends Handle {
  private volatile long rows;

  private Batch(long address) {
    super("batch", address, Api::plait_batch_free, null);
  }

  /**
   * Makes an empty batch.
   *
   * @param engine that it is for
   * @param scope which rows it holds
   * @return a new batch
   */
  public static Batch create(Engine engine, Scope scope) {
    return new Batch(engine.number(e -> Api.plait_batch_create(e, scope.value)));
  }

  /**
   * Copies values into the batch. Their range is checked when the batch is used.
   *
   * @param name "tokens", "targets" or "documents"
   * @param values rows · columns ids
   * @param rows number of sequences
   * @param columns length of a row
   */
  public void set(String name, int[] values, long rows, long columns) {
    if (values.length != Math.multiplyExact(rows, columns)) {
      throw new IllegalArgumentException(
          values.length + " values for " + rows + " rows of " + columns);
    }
    run(batch -> Api.plait_batch_set(batch, name, values, rows, columns));
    this.rows = rows;
  }

  /**
   * Removes values from the batch.
   *
   * @param name "tokens", "targets" or "documents"
   */
  public void remove(String name) {
    run(batch -> Api.plait_batch_set(batch, name, null, 0, 0));
  }

  /**
   * The batch's own memory, to be filled in place: nothing is copied on the way to it. It keeps its
   * content; it must not be touched after the shape has changed or the batch was closed.
   *
   * @param name "tokens", "targets" or "documents"
   * @param rows number of sequences
   * @param columns length of a row
   * @return a direct buffer of rows · columns ids
   */
  public IntBuffer map(String name, long rows, long columns) {
    IntBuffer values = get(batch -> {
      long address = Api.plait_batch_map(batch, name, rows, columns);
      long bytes = Math.multiplyExact(Math.multiplyExact(rows, columns), (long) Integer.BYTES);
      return NativeMemory.at(address, bytes).asIntBuffer();
    });
    this.rows = rows;
    return values;
  }

  /** Rows of what was set or mapped last. */
  long rows() {
    return rows;
  }
}
