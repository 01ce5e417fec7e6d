using System;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Threading;
using Plait;

// What a careless host does: throws in a log handler, drops every handle, disposes twice, calls after Dispose.
// Exceptions may come of it, no crash, and no memory that is never given back.
internal static class Abuse
{
    private static int Main()
    {
        CultureInfo.DefaultThreadCurrentCulture = CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
        Tap.Case("a log handler throws: the exception reaches the caller, training goes on", ThrowInHandler);
        Tap.Case("every handle is dropped: the collector frees 1,000 engines, memory stays flat", DropEverything);
        Tap.Case("every handle is disposed of twice, from two threads at once", DisposeTwice);
        Tap.Case("calls after Dispose throw, whatever other threads do", CallAfterDispose);
        return Tap.Failed == 0 ? 0 : 1;
    }

    private static void ThrowInHandler()
    {
        using (var folder = new Folder())
        using (var rig = new Rig())
        {
            Warnings.Prepare(folder, 100);
            for (int round = 0; round < 100; ++round)
            {
                Warnings.Provoke(rig.Context, folder);
                Tap.Throws<NotSupportedException>(() => rig.Context.DrainLog(record =>
                {
                    throw new NotSupportedException(record.Message);
                }), "a handler");
                rig.Step(round + 1);
                rig.Context.DrainLog(record => { });
            }
        }
    }

    // A method of its own, so that nothing is left of them on the stack.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Drop(int step)
    {
        var rig = new Rig();
        rig.Step(step);
        rig.Batch.Map("documents", Rig.Rows, Rig.Columns);
    }

    private static void DropEverything()
    {
        const int warmUp = 200, engines = 1000, between = 10, limitKiB = 8192;
        long before = 0;
        for (int i = 0; i < warmUp + engines; ++i)
        {
            if (i == warmUp) before = Memory.ResidentAfterCollection();
            Drop(i + 1);
            if (i % between != 0) continue;
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        long growth = Memory.ResidentAfterCollection() - before;
        Console.WriteLine("# {0} dropped engines: {1} KiB more", engines, growth);
        Tap.Check(growth < limitKiB, "memory grew by " + growth + " KiB");
    }

    private static void DisposeTwice()
    {
        for (int round = 0; round < 50; ++round)
        {
            var rig = new Rig();
            rig.Step(1);
            using (var start = new ManualResetEventSlim())
            {
                var other = new Thread(() =>
                {
                    start.Wait();
                    rig.Dispose();
                });
                other.Start();
                start.Set();
                rig.Dispose();
                other.Join();
            }
            rig.Dispose();
        }
    }

    private static void CallAfterDispose()
    {
        for (int round = 0; round < 50; ++round)
        {
            var rig = new Rig();
            rig.Step(1);
            var others = new Thread[3];
            for (int i = 0; i < others.Length; ++i)
            {
                others[i] = new Thread(() =>
                {
                    try
                    {
                        for (;;)
                        {
                            rig.Engine.Report("counters");
                            rig.Engine.RequestStop();
                            rig.Context.DrainLog(record => { });
                        }
                    }
                    catch (ObjectDisposedException)
                    {
                        // as it should
                    }
                });
                others[i].Start();
            }
            rig.Dispose();
            foreach (Thread other in others) Tap.Check(other.Join(10000), "a call after Dispose does not end");
            Tap.Throws<ObjectDisposedException>(() => rig.Engine.Step(rig.Batch), "a step");
            Tap.Throws<ObjectDisposedException>(() => rig.Engine.RequestStop(), "a stop");
            Tap.Throws<ObjectDisposedException>(() => rig.Batch.Set("tokens", new int[1], 1, 1), "a batch");
            Tap.Throws<ObjectDisposedException>(() => rig.Context.DrainLog(record => { }), "a drain");
        }
    }
}
