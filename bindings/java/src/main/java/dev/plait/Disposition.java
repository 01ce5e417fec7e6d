package dev.plait;

import dev.plait.internal.Api;

/** What an error left behind. */
public enum Disposition {
  /** No effect; correct the call. */
  UNCHANGED(Api.PLAIT_DISPOSITION_UNCHANGED),
  /** No effect; the same call may succeed later. */
  RETRY(Api.PLAIT_DISPOSITION_RETRY),
  /** Close engine and group, then make new ones. */
  ENGINE_LOST(Api.PLAIT_DISPOSITION_ENGINE_LOST),
  /** Device or memory cannot be repaired in this process. */
  PROCESS_LOST(Api.PLAIT_DISPOSITION_PROCESS_LOST),
  /** One that a newer library knows. */
  OTHER(-1);

  private final int value;

  Disposition(int value) {
    this.value = value;
  }

  static Disposition of(int value) {
    for (Disposition one : values()) {
      if (one.value == value) return one;
    }
    return OTHER;
  }
}
