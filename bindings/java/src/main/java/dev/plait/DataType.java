package dev.plait;

import dev.plait.internal.Api;

/** Types of elements. A newer library may know further numbers. */
public final class DataType {
  /** Java's float. */
  public static final int FLOAT32 = Api.PLAIT_DTYPE_FLOAT32;
  /** The upper half of a float. */
  public static final int BFLOAT16 = Api.PLAIT_DTYPE_BFLOAT16;
  /** IEEE half precision. */
  public static final int FLOAT16 = Api.PLAIT_DTYPE_FLOAT16;
  /** Java's int. */
  public static final int INT32 = Api.PLAIT_DTYPE_INT32;
  /** Java's long. */
  public static final int INT64 = Api.PLAIT_DTYPE_INT64;
  /** A byte without sign. */
  public static final int UINT8 = Api.PLAIT_DTYPE_UINT8;

  private DataType() {}
}
