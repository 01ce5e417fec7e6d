package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.plait_progress;
import java.time.Duration;

/**
 * Work that outlives the call that began it. Closing it neither waits nor cancels, and a wait that runs
 * in another thread goes on.
 */
public final class Operation extends Handle {
  Operation(long address) {
    super("operation", address, Api::plait_op_free, null);
  }

  /** Waits for the end; throws what made the operation fail. */
  public void await() {
    run(op -> Api.plait_op_wait(op, Timeouts.NONE));
  }

  /**
   * Waits for the end; throws what made the operation fail.
   *
   * @param limit of the wait; zero only looks, null is none
   * @throws PlaitException.DeadlineExceeded with the word deadline: it is still running, and runs on
   */
  public void await(Duration limit) {
    long timeout = Timeouts.milliseconds(limit);
    run(op -> Api.plait_op_wait(op, timeout));
  }

  /**
   * How far it is.
   *
   * @return state and bytes
   */
  public Progress progress() {
    return get(op -> {
      try (plait_progress progress = new plait_progress()) {
        Api.plait_op_progress(op, progress);
        return Progress.of(progress);
      }
    });
  }

  /**
   * The report of an operation that succeeded.
   *
   * @return JSON
   * @throws PlaitException FAILED_PRECONDITION with the word busy while it runs, else what it failed of
   */
  public String result() {
    return get(Api::plait_op_result);
  }

  /** Asks it to end. Nothing half-written stays. */
  public void cancel() {
    run(Api::plait_op_cancel);
  }
}
