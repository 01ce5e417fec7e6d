import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/** FNV-1a of 64 bits, as reference.c computes it. */
final class Fnv {
  private long hash = 0xcbf29ce484222325L;

  Fnv add(ByteBuffer bytes) {
    for (int i = bytes.position(); i < bytes.limit(); i++) {
      hash = (hash ^ (bytes.get(i) & 0xff)) * 0x100000001b3L;
    }
    return this;
  }

  Fnv add(String text) {
    return add(ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8)));
  }

  String hex() {
    return String.format("%016x", hash);
  }
}
