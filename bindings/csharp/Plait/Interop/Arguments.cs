using System;

namespace Plait.Interop
{
    internal static class Arguments
    {
        public static T Required<T>(T value, string name) where T : class
        {
            if (value == null) throw new ArgumentNullException(name);
            return value;
        }
    }
}
