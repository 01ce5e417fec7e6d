package dev.plait;

import dev.plait.internal.Api;

/** Error codes. A newer library may give others: treat what is not listed as any other failure. */
public final class Code {
  /** Done. */
  public static final int OK = Api.PLAIT_OK;
  /** An operation was cancelled. */
  public static final int CANCELLED = Api.PLAIT_CANCELLED;
  /** Nothing more is known. */
  public static final int UNKNOWN = Api.PLAIT_UNKNOWN;
  /** This call is wrong, and nothing has happened. */
  public static final int INVALID_ARGUMENT = Api.PLAIT_INVALID_ARGUMENT;
  /** A time limit has passed. */
  public static final int DEADLINE_EXCEEDED = Api.PLAIT_DEADLINE_EXCEEDED;
  /** A file or name is not there. */
  public static final int NOT_FOUND = Api.PLAIT_NOT_FOUND;
  /** Something is there already. */
  public static final int ALREADY_EXISTS = Api.PLAIT_ALREADY_EXISTS;
  /** The operating system forbids it. */
  public static final int PERMISSION_DENIED = Api.PLAIT_PERMISSION_DENIED;
  /** Memory, disk or another supply is used up. */
  public static final int RESOURCE_EXHAUSTED = Api.PLAIT_RESOURCE_EXHAUSTED;
  /** Not in this state, or not on what the processes disagree about. */
  public static final int FAILED_PRECONDITION = Api.PLAIT_FAILED_PRECONDITION;
  /** The call was ended from outside, or its engine is lost. */
  public static final int ABORTED = Api.PLAIT_ABORTED;
  /** A number left its range. */
  public static final int OUT_OF_RANGE = Api.PLAIT_OUT_OF_RANGE;
  /** Not in this build or this version. */
  public static final int UNIMPLEMENTED = Api.PLAIT_UNIMPLEMENTED;
  /** An error of the library's own. */
  public static final int INTERNAL = Api.PLAIT_INTERNAL;
  /** Not now. */
  public static final int UNAVAILABLE = Api.PLAIT_UNAVAILABLE;
  /** A file is damaged. */
  public static final int DATA_LOSS = Api.PLAIT_DATA_LOSS;
  /** A stranger, or a wrong token. */
  public static final int UNAUTHENTICATED = Api.PLAIT_UNAUTHENTICATED;
  /** A callback of the host failed. */
  public static final int HOST_ERROR = Api.PLAIT_HOST_ERROR;
  /** Another process died or froze. */
  public static final int PEER_LOST = Api.PLAIT_PEER_LOST;
  /** An orderly stop; never thrown. */
  public static final int STOPPED = Api.PLAIT_STOPPED;

  private Code() {}

  /**
   * Names a code as the C header does, without the prefix.
   *
   * @param code any number
   * @return its name, such as INVALID_ARGUMENT; UNKNOWN where the library knows none
   */
  public static String name(int code) {
    return Api.plait_code_name(code);
  }
}
