using System;
using System.Text;

namespace Plait.Interop
{
    // Text as the library has it: UTF-8 with a NUL behind it.
    internal static class Utf8
    {
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        // Null stays null. A NUL inside, or half a surrogate pair, would arrive as another text.
        public static byte[] Bytes(string text)
        {
            if (text == null) return null;
            if (text.IndexOf('\0') >= 0) throw new ArgumentException("The text has a NUL character in it.");
            var bytes = new byte[Strict.GetByteCount(text) + 1];
            Strict.GetBytes(text, 0, text.Length, bytes, 0);
            return bytes;
        }

        public static unsafe string Text(IntPtr text)
        {
            if (text == IntPtr.Zero) return null;
            var begin = (byte*)text;
            long length = 0;
            while (begin[length] != 0) ++length;
            return Text(begin, length);
        }

        public static unsafe string Text(byte* begin, long length)
        {
            return length == 0 ? "" : Encoding.UTF8.GetString(begin, checked((int)length));
        }
    }
}
