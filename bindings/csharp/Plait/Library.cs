using System;
using System.Runtime.InteropServices;
using Plait.Interop;

namespace Plait
{
    /// <summary>Facts about the loaded library. Any thread may call.</summary>
    public static class Library
    {
        /// <summary>The version whose header this binding was made from: major · 1,000,000 + minor · 1,000.</summary>
        public const int ApiVersion = Native.PLAIT_API_VERSION;

        /// <summary>Version of the loaded library, with the patch level in the last three digits.</summary>
        public static int Version
        {
            get { return Native.plait_version(); }
        }

        /// <summary>
        /// A fact about the build: "commit", "compiler", "features" (names separated by spaces), or
        /// "feature.NAME", which is "yes" or "not built". Null for a key that the library does not know.
        /// </summary>
        public static string BuildInfo(string key)
        {
            return Native.plait_build_info(key);
        }

        /// <summary>Name of a code as C has it: "OK", "INVALID_ARGUMENT", …; "UNKNOWN" for other numbers.</summary>
        public static string CodeName(Code code)
        {
            return Native.plait_code_name((int)code);
        }
    }

    /// <summary>Functions without any promise: they may change or go at any version.</summary>
    public static class Experimental
    {
        /// <summary>
        /// Gives back what it gets, so that a test can prove that nothing is lost on the way to the library and
        /// back.
        /// </summary>
        /// <param name="integer">Any number.</param>
        /// <param name="real">Any number.</param>
        /// <param name="text">Any text without a NUL in it.</param>
        /// <param name="data">Any bytes.</param>
        /// <param name="realBack">What the library saw as <paramref name="real"/>.</param>
        /// <param name="textBack">What the library saw as <paramref name="text"/>.</param>
        /// <param name="dataBack">What the library saw as <paramref name="data"/>.</param>
        /// <returns>What the library saw as <paramref name="integer"/>.</returns>
        /// <exception cref="PlaitException">The text is no valid text.</exception>
        public static unsafe long Echo(long integer, double real, string text, ReadOnlySpan<byte> data,
            out double realBack, out string textBack, out byte[] dataBack)
        {
            long back;
            fixed (byte* begin = &MemoryMarshal.GetReference(data))
            {
                Native.plait_x_echo(integer, real, text, (IntPtr)begin, data.Length, out back, out realBack,
                    out textBack, out dataBack);
            }
            return back;
        }
    }
}
