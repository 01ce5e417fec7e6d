package dev.plait;

import dev.plait.internal.Api;
import java.util.Locale;

/** How much a log record matters; the first is the gravest. */
public enum LogLevel {
  /** Something failed. */
  ERROR(Api.PLAIT_LOG_ERROR),
  /** Something may be wrong. */
  WARNING(Api.PLAIT_LOG_WARNING),
  /** What happens; the level at the start. */
  INFO(Api.PLAIT_LOG_INFO),
  /** More of it. */
  DEBUG(Api.PLAIT_LOG_DEBUG),
  /** All of it; also what a newer library calls by another name. */
  TRACE(Api.PLAIT_LOG_TRACE);

  final int value;

  LogLevel(int value) {
    this.value = value;
  }

  static LogLevel of(Object name) {
    String wanted = String.valueOf(name).toUpperCase(Locale.ROOT);
    for (LogLevel one : values()) {
      if (one.name().equals(wanted)) return one;
    }
    return TRACE;
  }
}
