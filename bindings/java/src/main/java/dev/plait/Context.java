package dev.plait;

import dev.plait.internal.Api;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.function.Consumer;

/** What everything else hangs on. Its children keep the native side alive: close it whenever you like. */
public final class Context extends Handle {
  private static final int CHUNK = 256;

  private final Queue<LogRecord> fetched = new ArrayDeque<>();

  private Context(long address) {
    super("context", address, Api::plait_context_free, null);
  }

  /**
   * Makes a context for the version of the interface that this binding was made for.
   *
   * @return a new context
   * @throws PlaitException FAILED_PRECONDITION with the word version_mismatch where the native library
   *     serves another version
   */
  public static Context create() {
    return create(Plait.API_VERSION);
  }

  /**
   * Makes a context for a given version of the interface.
   *
   * @param apiVersion major·10⁶ + minor·10³
   * @return a new context
   * @throws PlaitException as {@link #create()}
   */
  public static Context create(int apiVersion) {
    return new Context(Api.plait_context_create(apiVersion));
  }

  /**
   * Records above this level are dropped where they arise.
   *
   * @param level the last level to be kept
   */
  public void setLogLevel(LogLevel level) {
    run(context -> Api.plait_context_set_log_level(context, level.value));
  }

  /**
   * Hands the records that wait, oldest first, to a handler, on the caller's thread. The library keeps
   * the newest 4096, so that a host fetches them now and then, such as after each step. What the handler
   * throws comes out of here; the records behind the one that it threw at are kept for the next call.
   *
   * @param handler called for each record
   * @return how many records there were
   */
  public long drainLogs(Consumer<? super LogRecord> handler) {
    long count = 0;
    for (LogRecord record = next(); record != null; record = next()) {
      count++;
      handler.accept(record);
    }
    return count;
  }

  private LogRecord next() {
    synchronized (fetched) {
      if (fetched.isEmpty()) {
        String lines = get(context -> Api.plait_context_log_drain(context, CHUNK));
        lines.lines().map(LogRecord::parse).forEach(fetched::add);
      }
      return fetched.poll();
    }
  }
}
