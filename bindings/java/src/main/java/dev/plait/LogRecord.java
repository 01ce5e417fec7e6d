package dev.plait;

import dev.plait.internal.JsonLine;
import java.time.Instant;
import java.util.Map;

/**
 * One log record of the library.
 *
 * @param time when it was written; of a count of lost records, when it was fetched
 * @param level how much it matters
 * @param rank the rank that wrote it, -1 where none did
 * @param subsystem the part of the library
 * @param message one line
 * @param dropped how many records were lost before this place, since nobody fetched them in time; such
 *     a count is a record of its own, and 0 in all others
 */
public record LogRecord(Instant time, LogLevel level, int rank, String subsystem, String message,
    long dropped) {
  static LogRecord parse(String line) {
    Map<String, Object> fields = JsonLine.parse(line);
    if (fields.get("dropped") instanceof Double dropped) {
      long count = dropped.longValue();
      return new LogRecord(Instant.now(), LogLevel.WARNING, -1, "log",
          count + " older records were lost", count);
    }
    double seconds = number(fields, "time", 0);
    long whole = (long) Math.floor(seconds);
    return new LogRecord(Instant.ofEpochSecond(whole, Math.round((seconds - whole) * 1e9)),
        LogLevel.of(fields.get("level")), (int) number(fields, "rank", -1),
        String.valueOf(fields.get("subsystem")), String.valueOf(fields.get("message")), 0);
  }

  private static double number(Map<String, Object> fields, String name, double absent) {
    return fields.get(name) instanceof Double value ? value : absent;
  }
}
