using System;
using System.Runtime.CompilerServices;
using Plait;

// The log, drained on the caller's thread.
internal static class LogTests
{
    private const int Ring = 4096;

    public static void Run()
    {
        Tap.Case("the log is drained in order, with a count of what it lost", Overflow);
        Tap.Case("what a log handler throws reaches the caller, and nothing behind it is lost", Throwing);
        Tap.Case("a log handler is called 1,000,000 times, throws at last, and memory stays flat", Million);
        Tap.Case("a log handler survives 100 collections during training", Collections);
    }

    private static void Overflow()
    {
        using (var folder = new Folder())
        using (var context = new Context())
        {
            Warnings.Prepare(folder, 5000);
            Warnings.Provoke(context, folder);
            long dropped = 0, records = 0;
            string first = null, last = null;
            long count = context.DrainLog(record =>
            {
                if (record.Dropped > 0)
                {
                    Tap.Equal(0L, records, "records before the count");
                    dropped += record.Dropped;
                    return;
                }
                ++records;
                first = first ?? record.Message;
                last = record.Message;
                Tap.Equal(LogLevel.Warning, record.Level, "level");
                Tap.Equal(-1, record.Rank, "rank");
                Tap.Equal("checkpoint", record.Subsystem, "subsystem");
                Tap.Check(Math.Abs((DateTime.UtcNow - record.Time).TotalHours) < 1, "time " + record.Time);
            });
            Tap.Equal(5000L - Ring, dropped, "dropped");
            Tap.Equal((long)Ring, records, "records");
            Tap.Equal(Ring + 1L, count, "calls");
            Tap.Check(last.Contains("no such key") && last.Contains("\U0001F9F5"), last);
            Tap.Check(first != last, "the same record twice");
            Tap.Equal(0L, context.DrainLog(record => { }), "records of an empty log");
            context.SetLogLevel(LogLevel.Error);
            Warnings.Provoke(context, folder);
            Tap.Equal(0L, context.DrainLog(record => { }), "records above the level");
        }
    }

    private static void Throwing()
    {
        using (var folder = new Folder())
        using (var context = new Context())
        {
            Warnings.Prepare(folder, 10);
            Warnings.Provoke(context, folder);
            var thrown = new InvalidOperationException("the third");
            int calls = 0;
            var got = Tap.Throws<InvalidOperationException>(() => context.DrainLog(record =>
            {
                if (++calls == 3) throw thrown;
            }), "a throwing handler");
            Tap.Check(ReferenceEquals(thrown, got), "another exception");
            Tap.Equal(3, calls, "calls");
            Tap.Equal(5L, context.DrainLog(record => ++calls, 5), "records up to a number");
            Tap.Equal(2L, context.DrainLog(record => ++calls), "the other records");
        }
    }

    private static void Million()
    {
        const int warmUp = 200000, all = 1000000, limitKiB = 8192;
        using (var folder = new Folder())
        using (var context = new Context())
        {
            Warnings.Prepare(folder, 4000);
            long calls = 0, before = 0, bytes = 0;
            Action<LogRecord> handler = record =>
            {
                bytes += record.Message.Length;
                ++calls;
                if (calls == warmUp) before = Memory.ResidentAfterCollection();
                if (calls == all) throw new OperationCanceledException("the last");
            };
            var error = Tap.Throws<OperationCanceledException>(() =>
            {
                for (;;)
                {
                    Warnings.Provoke(context, folder);
                    context.DrainLog(handler);
                }
            }, "the last call");
            Tap.Equal("the last", error.Message, "message");
            Tap.Equal((long)all, calls, "calls");
            Tap.Check(bytes > all, "no messages");
            long growth = Memory.ResidentAfterCollection() - before;
            Console.WriteLine("# {0} calls: {1} KiB more", all - warmUp, growth);
            Tap.Check(growth < limitKiB, "memory grew by " + growth + " KiB");
        }
    }

    // The handler is reachable through the argument alone.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static long DrainOnce(Context context, int[] calls)
    {
        return context.DrainLog(record => ++calls[0]);
    }

    private static void Collections()
    {
        using (var folder = new Folder())
        using (var rig = new Rig())
        {
            Warnings.Prepare(folder, 3);
            var calls = new int[1];
            rig.Context.DrainLog(record => { });
            for (int i = 0; i < 100; ++i)
            {
                Warnings.Provoke(rig.Context, folder);
                rig.Step(i + 1);
                GC.Collect();
                GC.WaitForPendingFinalizers();
                DrainOnce(rig.Context, calls);
            }
            Tap.Equal(300, calls[0], "calls");
        }
    }
}
