import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;

/** The sample prints numbers as C does. */
final class FormatTests {
  private FormatTests() {}

  static void run(Reference reference) {
    Tap.test("numbers are printed as C's %.17g prints them", () -> numbers(reference));
  }

  private static void numbers(Reference reference) throws Exception {
    List<Double> values = new ArrayList<>(List.of(0.0, -0.0, 1.0, 10.0, 100.0, 0.5, 0.1, -0.1, 2 / 3.0,
        1e-4, 9.9999999999999991e-5, 1e-5, 123456.0, 1e16, 1e17, 1.5e17, 1e22, 1e300, 1e-300,
        99999999999999984.0, Double.MIN_VALUE, Double.MAX_VALUE, Double.NaN,
        Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 5.0 / 1024, 0x1.0p-30));
    Random random = new Random(17);
    for (int i = 0; i < 2000; i++) {
      values.add(random.nextDouble() * Math.pow(10, random.nextInt(7) - 3));
      values.add(Double.longBitsToDouble(random.nextLong() & ~(0x7ffL << 52)
          | (long) (1 + random.nextInt(2046)) << 52));
    }
    String bits = values.stream().map(value -> Long.toHexString(Double.doubleToLongBits(value)))
        .collect(Collectors.joining("\n"));
    String[] inC = reference.run(bits, "format").split("\n");
    Tap.equal(values.size(), inC.length);
    for (int i = 0; i < inC.length; i++) {
      Tap.equal(inC[i].replace("-nan", "nan"), Train.line(List.of(values.get(i))));
    }
  }
}
