using System;
using System.Runtime.InteropServices;

namespace Plait.Interop
{
    // Copies a plait_bytes and frees it; null for NULL, which is what a failed call leaves.
    internal static class Bytes
    {
        public static unsafe string TakeText(IntPtr bytes)
        {
            if (bytes == IntPtr.Zero) return null;
            try
            {
                return Utf8.Text((byte*)Native.plait_bytes_data(bytes), Native.plait_bytes_size(bytes));
            }
            finally
            {
                Native.plait_bytes_free(bytes);
            }
        }

        public static byte[] TakeBytes(IntPtr bytes)
        {
            if (bytes == IntPtr.Zero) return null;
            try
            {
                var copy = new byte[Native.plait_bytes_size(bytes)];
                Marshal.Copy(Native.plait_bytes_data(bytes), copy, 0, copy.Length);
                return copy;
            }
            finally
            {
                Native.plait_bytes_free(bytes);
            }
        }

        public static int[] TakeIntegers(IntPtr bytes)
        {
            if (bytes == IntPtr.Zero) return null;
            try
            {
                var copy = new int[Native.plait_bytes_size(bytes) / sizeof(int)];
                Marshal.Copy(Native.plait_bytes_data(bytes), copy, 0, copy.Length);
                return copy;
            }
            finally
            {
                Native.plait_bytes_free(bytes);
            }
        }
    }
}
