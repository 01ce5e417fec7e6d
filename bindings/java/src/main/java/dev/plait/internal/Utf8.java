package dev.plait.internal;

import java.nio.charset.StandardCharsets;

/** Text as the C interface has it. The JVM's own text functions for C write another code. */
public final class Utf8 {
  private Utf8() {}

  /**
   * @param text a text, or null
   * @return its UTF-8, without a NUL behind it; null for null
   * @throws IllegalArgumentException where C would read another text: U+0000, half a surrogate pair
   */
  public static byte[] encode(String text) {
    if (text == null) return null;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      boolean isPair = Character.isHighSurrogate(c) && i + 1 < text.length()
          && Character.isLowSurrogate(text.charAt(i + 1));
      if (isPair) {
        i++;
      } else if (c == 0 || Character.isSurrogate(c)) {
        throw new IllegalArgumentException(
            String.format("a text for Plait holds U+%04X at %d", (int) c, i));
      }
    }
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /**
   * @param bytes UTF-8, or null
   * @return the text; null for null
   */
  public static String decode(byte[] bytes) {
    return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
  }
}
