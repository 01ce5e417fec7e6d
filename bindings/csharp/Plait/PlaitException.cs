using System;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// A call of the library failed. <see cref="Exception.Message"/> is one line,
    /// "word: sentence; key=value …"; programs look at <see cref="Code"/>, <see cref="Word"/> and
    /// <see cref="Disposition"/>.
    /// </summary>
    public sealed class PlaitException : Exception
    {
        private PlaitException(IntPtr error) : base(Native.plait_error_message(error))
        {
            Code = (Code)Native.plait_error_code(error);
            Word = Native.plait_error_word(error);
            Subsystem = Native.plait_error_subsystem(error);
            Details = Native.plait_error_details(error);
            Rank = Native.plait_error_rank(error);
            Disposition = (Disposition)Native.plait_error_disposition(error);
            HostCode = Native.plait_error_host_code(error);
        }

        /// <summary>What kind of error it is.</summary>
        public Code Code { get; private set; }

        /// <summary>Name of <see cref="Code"/> as C has it, without the prefix: "INVALID_ARGUMENT", …</summary>
        public string CodeName
        {
            get { return Library.CodeName(Code); }
        }

        /// <summary>The detail word, for programs: as stable as the code.</summary>
        public string Word { get; private set; }

        /// <summary>Part of the library that failed, "" when it did not say.</summary>
        public string Subsystem { get; private set; }

        /// <summary>The fields of the message as a JSON object: path, errno, offset, want, got, …</summary>
        public string Details { get; private set; }

        /// <summary>Rank where the error began, -1 when it belongs to none.</summary>
        public int Rank { get; private set; }

        /// <summary>What the failure left behind.</summary>
        public Disposition Disposition { get; private set; }

        /// <summary>What a callback of the host returned when it failed, else 0.</summary>
        public long HostCode { get; private set; }

        // Copies the error object at `address` and frees it.
        internal static PlaitException Take(long address)
        {
            var error = new IntPtr(address);
            try
            {
                return new PlaitException(error);
            }
            finally
            {
                Native.plait_error_free(error);
            }
        }
    }
}
