package dev.plait;

import dev.plait.internal.Api;

/** What an engine can do now. */
public enum EngineState {
  /** It waits for a call. */
  READY(Api.PLAIT_ENGINE_READY),
  /** A call is in progress. */
  RUNNING(Api.PLAIT_ENGINE_RUNNING),
  /** It answers reports and counters, no more. */
  LOST(Api.PLAIT_ENGINE_LOST),
  /** It was shut down. */
  CLOSED(Api.PLAIT_ENGINE_CLOSED),
  /** One that a newer library knows. */
  OTHER(-1);

  private final int value;

  EngineState(int value) {
    this.value = value;
  }

  static EngineState of(long value) {
    for (EngineState one : values()) {
      if (one.value == value) return one;
    }
    return OTHER;
  }
}
