using System;
using System.Globalization;
using System.Numerics;

// Numbers as C's printf writes them by %.17g. Mono's "g17" differs: it rounds a half up where C rounds it to
// the even digit, and drops the sign of -0.
internal static class CText
{
    private const int Digits = 17;

    public static string Format(double value)
    {
        if (double.IsNaN(value)) return "nan";
        long bits = BitConverter.DoubleToInt64Bits(value);
        string sign = bits < 0 ? "-" : "";
        if (double.IsInfinity(value)) return sign + "inf";
        if (value == 0) return sign + "0";
        int exponent;
        string digits = Round(bits, out exponent).ToString(CultureInfo.InvariantCulture);
        return sign + Layout(digits.TrimEnd('0'), exponent);
    }

    // The 17 digits, as an integer, and the decimal exponent of the first of them.
    private static BigInteger Round(long bits, out int exponent)
    {
        int power = (int)(bits >> 52 & 0x7FF);
        long mantissa = bits & 0xFFFFFFFFFFFFF;
        if (power == 0) power = 1;
        else mantissa |= 1L << 52;
        power -= 1075; // the value is mantissa · 2^power
        exponent = (int)Math.Floor(Math.Log10(mantissa) + power * Math.Log10(2));
        BigInteger limit = BigInteger.Pow(10, Digits);
        for (;;)
        {
            BigInteger numerator = mantissa, denominator = 1;
            Scale(ref numerator, ref denominator, 2, power);
            Scale(ref numerator, ref denominator, 10, Digits - 1 - exponent);
            BigInteger rest, result = BigInteger.DivRem(numerator, denominator, out rest);
            int half = (rest * 2).CompareTo(denominator);
            if (half > 0 || half == 0 && !result.IsEven) result += 1;
            if (result >= limit) ++exponent; // the estimate was one too low, or rounding carried
            else if (result * 10 < limit) --exponent;
            else return result;
        }
    }

    private static void Scale(ref BigInteger numerator, ref BigInteger denominator, int radix, int power)
    {
        if (power >= 0) numerator *= BigInteger.Pow(radix, power);
        else denominator *= BigInteger.Pow(radix, -power);
    }

    private static string Layout(string digits, int exponent)
    {
        if (exponent < -4 || exponent >= Digits)
        {
            string point = digits.Length > 1 ? "." : "";
            return digits.Substring(0, 1) + point + digits.Substring(1) + (exponent < 0 ? "e-" : "e+") +
                   Math.Abs(exponent).ToString("00", CultureInfo.InvariantCulture);
        }
        if (exponent < 0) return "0." + new string('0', -exponent - 1) + digits;
        if (digits.Length <= exponent + 1) return digits.PadRight(exponent + 1, '0');
        return digits.Substring(0, exponent + 1) + "." + digits.Substring(exponent + 1);
    }
}
