package dev.plait;

import dev.plait.internal.plait_progress;

/**
 * How far an operation is.
 *
 * @param state running, or how it ended
 * @param doneBytes what is done
 * @param totalBytes what there is to do, 0 as long as that is not known
 */
public record Progress(OperationState state, long doneBytes, long totalBytes) {
  static Progress of(plait_progress progress) {
    return new Progress(OperationState.of(progress.getState()), progress.getDone_bytes(),
        progress.getTotal_bytes());
  }
}
