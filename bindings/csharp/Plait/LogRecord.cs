using System;
using System.Globalization;
using System.Text;

namespace Plait
{
    /// <summary>One record of the log. It does not change.</summary>
    public sealed class LogRecord
    {
        private static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

        private LogRecord(string line)
        {
            Line = line;
            Time = Epoch;
            Level = LogLevel.Warning;
            Rank = -1;
            Subsystem = "";
            Message = "";
        }

        /// <summary>The record as the library gives it: a JSON object without line end.</summary>
        public string Line { get; private set; }

        /// <summary>When it was written (UTC).</summary>
        public DateTime Time { get; private set; }

        /// <summary>How much it matters.</summary>
        public LogLevel Level { get; private set; }

        /// <summary>Rank that it is about, -1 for none.</summary>
        public int Rank { get; private set; }

        /// <summary>Part of the library that wrote it.</summary>
        public string Subsystem { get; private set; }

        /// <summary>The text.</summary>
        public string Message { get; private set; }

        /// <summary>
        /// 0 for a record. Otherwise this stands for so many records that were lost because nobody drained them
        /// in time, and says nothing else.
        /// </summary>
        public long Dropped { get; private set; }

        internal static LogRecord Parse(string line)
        {
            var record = new LogRecord(line);
            var fields = new FlatJson(line);
            string key, value;
            while (fields.Next(out key, out value)) record.Set(key, value);
            return record;
        }

        // Fields of newer libraries are passed over.
        private void Set(string key, string value)
        {
            switch (key)
            {
                case "time": Time = Epoch.AddTicks((long)(Real(value) * TimeSpan.TicksPerSecond)); break;
                case "level": Level = LevelOf(value); break;
                case "rank": Rank = (int)Integer(value); break;
                case "subsystem": Subsystem = value; break;
                case "message": Message = value; break;
                case "dropped": Dropped = Integer(value); break;
            }
        }

        private static double Real(string value)
        {
            return double.Parse(value, NumberStyles.Float, CultureInfo.InvariantCulture);
        }

        private static long Integer(string value)
        {
            return long.Parse(value, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture);
        }

        private static LogLevel LevelOf(string name)
        {
            switch (name)
            {
                case "error": return LogLevel.Error;
                case "warning": return LogLevel.Warning;
                case "debug": return LogLevel.Debug;
                case "trace": return LogLevel.Trace;
                default: return LogLevel.Info;
            }
        }

        /// <summary>Level, rank, subsystem and text, in one line.</summary>
        public override string ToString()
        {
            if (Dropped > 0) return Dropped.ToString(CultureInfo.InvariantCulture) + " records were lost";
            var text = new StringBuilder(Level.ToString().ToLowerInvariant());
            if (Rank >= 0) text.Append(" rank ").Append(Rank.ToString(CultureInfo.InvariantCulture));
            return text.Append(' ').Append(Subsystem).Append(": ").Append(Message).ToString();
        }
    }
}
