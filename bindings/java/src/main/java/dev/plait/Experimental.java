package dev.plait;

import dev.plait.internal.Api;
import dev.plait.internal.Utf8;
import java.nio.ByteBuffer;

/** Experimental functions: no promise at all. They may change or go with any version. */
public final class Experimental {
  private Experimental() {}

  /**
   * What came back.
   *
   * @param integer the integer
   * @param real the real number
   * @param text the text
   * @param data the bytes
   */
  public record Echo(long integer, double real, String text, byte[] data) {}

  /**
   * Gives back what it gets: proof that nothing is lost on the way.
   *
   * @param integer any
   * @param real any
   * @param text any
   * @param data any bytes
   * @return the same
   */
  public static Echo echo(long integer, double real, String text, ByteBuffer data) {
    long[] integers = new long[1];
    double[] reals = new double[1];
    byte[][] texts = new byte[1][];
    byte[][] bytes = new byte[1][];
    Api.plait_x_echo(
        integer, real, text, data.slice(), data.remaining(), integers, reals, texts, bytes);
    return new Echo(integers[0], reals[0], Utf8.decode(texts[0]), bytes[0]);
  }
}
