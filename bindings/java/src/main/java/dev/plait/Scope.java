package dev.plait;

import dev.plait.internal.Api;

/** Which rows of the global batch a host supplies. */
public enum Scope {
  /** All of them, in global order. */
  GLOBAL(Api.PLAIT_BATCH_GLOBAL),
  /** Those of {@link Engine#batchSpans}. */
  LOCAL(Api.PLAIT_BATCH_LOCAL);

  final int value;

  Scope(int value) {
    this.value = value;
  }
}
