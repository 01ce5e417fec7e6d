package dev.plait;

import java.time.Duration;

/** Time limits as the C interface counts them. */
final class Timeouts {
  /** No limit besides those that are configured. */
  static final long NONE = -1;

  private static final Duration LONGEST = Duration.ofMillis(Long.MAX_VALUE);

  private Timeouts() {}

  /** Milliseconds, rounded up, of a limit that is not negative; {@link #NONE} for null. */
  static long milliseconds(Duration limit) {
    if (limit == null) return NONE;
    if (limit.isNegative()) throw new IllegalArgumentException("a negative time limit: " + limit);
    if (limit.compareTo(LONGEST) >= 0) return Long.MAX_VALUE;
    return limit.plusNanos(999_999).toMillis();
  }
}
