import dev.plait.Config;
import dev.plait.Context;
import dev.plait.Experimental;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Random;

/** Numbers, text and bytes cross the border unchanged. */
final class ValueTests {
  private static final String EMOJI = "zażółć gęślą jaźń · 日本 · 😀 👩‍🚀 𝔘 \uDBFF\uDFFF";
  private static final ByteBuffer NOTHING = ByteBuffer.allocateDirect(0);

  private ValueTests() {}

  static void run() {
    Tap.test("integers beyond 32 and 53 bits come back", ValueTests::integers);
    Tap.test("real numbers come back in every bit", ValueTests::reals);
    Tap.test("text beyond the BMP comes back, through echo and as a value", ValueTests::text);
    Tap.test("text that C cannot read is refused", ValueTests::refusedText);
    Tap.test("bytes between position and limit of a buffer come back", ValueTests::bytes);
  }

  private static void integers() {
    for (long value : new long[] {1L << 31, (1L << 32) + 5, 1L << 40, (1L << 53) + 1, Long.MAX_VALUE,
        Long.MIN_VALUE, -1, 0}) {
      Tap.equal(value, Experimental.echo(value, 0, "", NOTHING).integer());
    }
    try (Context context = Context.create(); Config config = Config.create(context)) {
      config.set("seed", String.valueOf(Long.MAX_VALUE));
      Tap.equal(Long.MAX_VALUE, Long.parseLong(config.get("seed")));
    }
  }

  private static void reals() {
    for (double value : new double[] {-0.0, Double.MIN_VALUE, Double.MAX_VALUE, 0.1, -1 / 3.0,
        Double.NaN, Double.POSITIVE_INFINITY}) {
      Tap.equal(Double.doubleToRawLongBits(value),
          Double.doubleToRawLongBits(Experimental.echo(0, value, "", NOTHING).real()));
    }
  }

  private static void text() {
    String longOne = EMOJI.repeat(1000);
    for (String text : List.of("", "x", EMOJI, "x".repeat(255), "x".repeat(256), longOne)) {
      Tap.equal(text, Experimental.echo(0, 0, text, NOTHING).text());
    }
    try (Context context = Context.create(); Config config = Config.create(context)) {
      config.set("run.checkpoint", "/" + EMOJI);
      Tap.equal("/" + EMOJI, config.get("run.checkpoint"));
      config.set("run.checkpoint", null);
      Tap.equal("", config.get("run.checkpoint"));
    }
  }

  private static void refusedText() {
    for (String text : List.of("a\0b", "\uD83D", "\uDE00\uD83D", "x\uDE00")) {
      Tap.thrown(IllegalArgumentException.class, () -> Experimental.echo(0, 0, text, NOTHING));
    }
  }

  private static void bytes() {
    byte[] data = new byte[1 << 20];
    new Random(5).nextBytes(data);
    ByteBuffer buffer = ByteBuffer.allocateDirect(data.length).put(data).clear();
    Tap.check(Arrays.equals(data, Experimental.echo(0, 0, "", buffer).data()), "a megabyte");
    buffer.position(3).limit(10);
    Tap.check(Arrays.equals(Arrays.copyOfRange(data, 3, 10),
        Experimental.echo(0, 0, "", buffer).data()), "seven bytes");
    Tap.equal(3, buffer.position());
    Tap.equal(0, Experimental.echo(0, 0, "", NOTHING).data().length);
    Tap.thrown(IllegalArgumentException.class,
        () -> Experimental.echo(0, 0, "", ByteBuffer.allocate(4)));
  }
}
