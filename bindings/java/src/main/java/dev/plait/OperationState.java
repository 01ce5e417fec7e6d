package dev.plait;

import dev.plait.internal.Api;

/** How far an operation is. */
public enum OperationState {
  /** At work. */
  RUNNING(Api.PLAIT_OP_RUNNING),
  /** It succeeded. */
  DONE(Api.PLAIT_OP_DONE),
  /** It failed: {@link Operation#await} throws why. */
  FAILED(Api.PLAIT_OP_FAILED),
  /** It was cancelled. */
  CANCELLED(Api.PLAIT_OP_CANCELLED),
  /** One that a newer library knows. */
  OTHER(-1);

  private final int value;

  OperationState(int value) {
    this.value = value;
  }

  static OperationState of(long value) {
    for (OperationState one : values()) {
      if (one.value == value) return one;
    }
    return OTHER;
  }
}
