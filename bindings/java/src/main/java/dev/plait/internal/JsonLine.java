package dev.plait.internal;

import java.util.LinkedHashMap;
import java.util.Map;

/** Reads the JSON objects of log lines: fields that are texts, numbers, true, false or null. */
public final class JsonLine {
  private final String text;
  private int at;

  private JsonLine(String text) {
    this.text = text;
  }

  /**
   * @param line one object
   * @return its fields in their order: String, Double, Boolean or null
   * @throws IllegalArgumentException for anything else
   */
  public static Map<String, Object> parse(String line) {
    JsonLine reader = new JsonLine(line);
    Map<String, Object> fields = new LinkedHashMap<>();
    reader.expect('{');
    while (!reader.accept('}')) {
      if (!fields.isEmpty()) reader.expect(',');
      String name = reader.string();
      reader.expect(':');
      fields.put(name, reader.value());
    }
    return fields;
  }

  private IllegalArgumentException wrong() {
    return new IllegalArgumentException("no log line, from character " + at + " on: " + text);
  }

  private char peek() {
    while (at < text.length() && Character.isWhitespace(text.charAt(at))) at++;
    if (at == text.length()) throw wrong();
    return text.charAt(at);
  }

  private boolean accept(char wanted) {
    if (peek() != wanted) return false;
    at++;
    return true;
  }

  private void expect(char wanted) {
    if (!accept(wanted)) throw wrong();
  }

  private Object value() {
    if (peek() == '"') return string();
    int begin = at;
    while (at < text.length() && ",}".indexOf(text.charAt(at)) < 0) at++;
    String word = text.substring(begin, at).strip();
    switch (word) {
      case "null":
        return null;
      case "true":
        return Boolean.TRUE;
      case "false":
        return Boolean.FALSE;
      default:
        try {
          return Double.valueOf(word);
        } catch (NumberFormatException failure) {
          throw wrong();
        }
    }
  }

  private String string() {
    expect('"');
    int end = at;
    while (end < text.length() && text.charAt(end) != '"' && text.charAt(end) != '\\') end++;
    StringBuilder out = new StringBuilder(text.substring(at, end));
    at = end;
    while (at < text.length()) {
      char c = text.charAt(at++);
      if (c == '"') return out.toString();
      out.append(c == '\\' ? escaped() : c);
    }
    throw wrong();
  }

  private char escaped() {
    if (at == text.length()) throw wrong();
    char c = text.charAt(at++);
    int known = "nrtbf".indexOf(c);
    if (known >= 0) return "\n\r\t\b\f".charAt(known);
    if (c != 'u') return c;
    if (at + 4 > text.length()) throw wrong();
    at += 4;
    return (char) Integer.parseInt(text.substring(at - 4, at), 16);
  }
}
