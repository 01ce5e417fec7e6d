using System;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// What everything else hangs on; it keeps the log. Any thread may call. Dispose of objects in any order: what
    /// still needs the context keeps it alive inside the library.
    /// </summary>
    public sealed class Context : IDisposable
    {
        private const long LinesAtOnce = 1024;

        private readonly object linesLock = new object();
        private string[] lines = new string[0]; // taken out of the ring, not yet handed over
        private int next;

        /// <summary>Checks that the loaded library serves the version that this binding was made for.</summary>
        /// <exception cref="PlaitException">FailedPrecondition/version_mismatch: it does not.</exception>
        public Context()
        {
            ContextHandle handle;
            Native.plait_context_create(Library.ApiVersion, out handle);
            Handle = handle;
        }

        internal ContextHandle Handle { get; private set; }

        /// <summary>Records above <paramref name="level"/> are dropped where they arise.</summary>
        public void SetLogLevel(LogLevel level)
        {
            Native.plait_context_set_log_level(Handle, (int)level);
        }

        /// <summary>
        /// Takes records out of the log, oldest first, and calls <paramref name="handler"/> with each, on this
        /// thread. What the handler throws ends the call and reaches the caller; the records behind that one
        /// wait for the next call. Records arise whenever the library works, so drain now and then: it keeps the
        /// newest few thousand, and a record with <see cref="LogRecord.Dropped"/> counts what was lost.
        /// </summary>
        /// <param name="handler">Called with each record. It is not kept.</param>
        /// <param name="maxRecords">The most records to hand over.</param>
        /// <returns>How many records were handed over.</returns>
        public long DrainLog(Action<LogRecord> handler, long maxRecords = long.MaxValue)
        {
            Arguments.Required(handler, "handler");
            if (maxRecords < 0) throw new ArgumentOutOfRangeException("maxRecords");
            long count = 0;
            string line;
            while (count < maxRecords && (line = TakeLine(maxRecords - count)) != null)
            {
                ++count;
                handler(LogRecord.Parse(line));
            }
            return count;
        }

        private string TakeLine(long wanted)
        {
            lock (linesLock)
            {
                if (next == lines.Length)
                {
                    string text;
                    Native.plait_context_log_drain(Handle, Math.Min(wanted, LinesAtOnce), out text);
                    lines = text.Split(new[] { '\n' }, StringSplitOptions.RemoveEmptyEntries);
                    next = 0;
                    if (lines.Length == 0) return null;
                }
                string line = lines[next];
                lines[next++] = null;
                return line;
            }
        }

        /// <summary>Frees the handle. A second call does nothing.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }
}
