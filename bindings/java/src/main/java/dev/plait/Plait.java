package dev.plait;

import dev.plait.internal.Api;

/** The library itself. Its native half is loaded with the first call of anything in this package. */
public final class Plait {
  /** The version of the C interface that this binding was made for, as major·10⁶ + minor·10³. */
  public static final int API_VERSION = Api.PLAIT_API_VERSION;

  private Plait() {}

  /**
   * The version of the loaded library.
   *
   * @return major·10⁶ + minor·10³ + patch
   */
  public static int version() {
    return Api.plait_version();
  }

  /**
   * A fact about how the library was built.
   *
   * @param key "commit", "compiler", "features" (separated by spaces) or "feature.NAME"
   * @return the fact, null where the library does not know the key
   */
  public static String buildInfo(String key) {
    return Api.plait_build_info(key);
  }

  /**
   * Tells whether an optional part is in this build, such as "cuda" or "mpi".
   *
   * @param name the part
   * @return false for names that the library does not know, too
   */
  public static boolean hasFeature(String name) {
    return "yes".equals(buildInfo("feature." + name));
  }
}
