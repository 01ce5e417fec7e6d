package dev.plait;

import dev.plait.internal.Api;

/** What of a parameter is meant. A newer library may know further numbers. */
public final class Kind {
  /** A weight, as it computes. */
  public static final int PARAM = Api.PLAIT_KIND_PARAM;
  /** A weight, as the optimizer keeps it. */
  public static final int MASTER = Api.PLAIT_KIND_MASTER;
  /** First moment of the optimizer. */
  public static final int MOMENT1 = Api.PLAIT_KIND_MOMENT1;
  /** Second moment of the optimizer. */
  public static final int MOMENT2 = Api.PLAIT_KIND_MOMENT2;
  /** Other state. */
  public static final int EXTRA = Api.PLAIT_KIND_EXTRA;
  /** A gradient; never stored. */
  public static final int GRADIENT = Api.PLAIT_KIND_GRADIENT;

  private Kind() {}
}
