package dev.plait;

import dev.plait.internal.Utf8;

/**
 * What the library refused or failed at. Unchecked. {@link #getMessage} is one line,
 * {@code <word>: <sentence>; key=value …}; programs read {@link #code} and {@link #word}. Those codes
 * that a host answers in a way of its own are subclasses.
 */
public class PlaitException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** One of {@link Code}. */
  private final int code;
  /** Where it began. */
  private final int rank;
  /** What it left behind. */
  private final Disposition disposition;
  /** What a callback returned. */
  private final long hostCode;
  /** What went wrong, for programs. */
  private final String word;
  /** The part that failed. */
  private final String subsystem;
  /** Fields of the message as JSON. */
  private final String details;

  private PlaitException(Parts parts) {
    super(parts.message);
    code = parts.code;
    rank = parts.rank;
    disposition = Disposition.of(parts.disposition);
    hostCode = parts.hostCode;
    word = parts.word;
    subsystem = parts.subsystem;
    details = parts.details;
  }

  /** The call is wrong, and nothing has happened: correct it and call again. */
  public static final class InvalidArgument extends PlaitException {
    private static final long serialVersionUID = 1;

    private InvalidArgument(Parts parts) {
      super(parts);
    }
  }

  /** A time limit has passed; see {@link #disposition} for whether the engine still lives. */
  public static final class DeadlineExceeded extends PlaitException {
    private static final long serialVersionUID = 1;

    private DeadlineExceeded(Parts parts) {
      super(parts);
    }
  }

  /** An abort ended the call, or came before it: close engine and group. */
  public static final class Aborted extends PlaitException {
    private static final long serialVersionUID = 1;

    private Aborted(Parts parts) {
      super(parts);
    }
  }

  /** Not in this build or not in this version of the library. */
  public static final class Unimplemented extends PlaitException {
    private static final long serialVersionUID = 1;

    private Unimplemented(Parts parts) {
      super(parts);
    }
  }

  /** A file is damaged; {@link #details} lists where. */
  public static final class DataLoss extends PlaitException {
    private static final long serialVersionUID = 1;

    private DataLoss(Parts parts) {
      super(parts);
    }
  }

  /**
   * Another process died or froze, the one of {@link #rank}: close engine and group, make new ones of
   * the ranks that are left, load, and go on.
   */
  public static final class PeerLost extends PlaitException {
    private static final long serialVersionUID = 1;

    private PeerLost(Parts parts) {
      super(parts);
    }
  }

  /** All of an error object. */
  private record Parts(int code, int rank, int disposition, long hostCode, String message,
      String word, String subsystem, String details) {}

  /** Called from native code, which finds it by name and signature. */
  private static PlaitException of(int code, int rank, int disposition, long hostCode,
      byte[] message, byte[] word, byte[] subsystem, byte[] details) {
    Parts parts = new Parts(code, rank, disposition, hostCode, Utf8.decode(message),
        Utf8.decode(word), Utf8.decode(subsystem), Utf8.decode(details));
    return switch (code) {
      case Code.INVALID_ARGUMENT -> new InvalidArgument(parts);
      case Code.DEADLINE_EXCEEDED -> new DeadlineExceeded(parts);
      case Code.ABORTED -> new Aborted(parts);
      case Code.UNIMPLEMENTED -> new Unimplemented(parts);
      case Code.DATA_LOSS -> new DataLoss(parts);
      case Code.PEER_LOST -> new PeerLost(parts);
      default -> new PlaitException(parts);
    };
  }

  /**
   * The code.
   *
   * @return one of {@link Code}, or one that a newer library knows
   */
  public final int code() {
    return code;
  }

  /**
   * The code by name.
   *
   * @return a name as in INVALID_ARGUMENT
   */
  public final String codeName() {
    return Code.name(code);
  }

  /**
   * What went wrong, for programs: as stable as the code.
   *
   * @return a word such as {@code bad_handle}
   */
  public final String word() {
    return word;
  }

  /**
   * Where the error began.
   *
   * @return a rank, or -1 where it belongs to none
   */
  public final int rank() {
    return rank;
  }

  /**
   * What the failure left behind.
   *
   * @return what can be done now
   */
  public final Disposition disposition() {
    return disposition;
  }

  /**
   * The part of the library that failed.
   *
   * @return its name, "" where it did not say
   */
  public final String subsystem() {
    return subsystem;
  }

  /**
   * The fields of the message: path, errno, offset, want, got and so on.
   *
   * @return a JSON object
   */
  public final String details() {
    return details;
  }

  /**
   * What a callback of the host returned when it failed.
   *
   * @return that number, 0 where none failed
   */
  public final long hostCode() {
    return hostCode;
  }
}
