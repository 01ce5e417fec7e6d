using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using Plait;

// Ends of handles, in every order and from every thread.
internal static class LifetimeTests
{
    public static void Run()
    {
        Tap.Case("a second thread stops the run, a third aborts it", StopAndAbort);
        Tap.Case("five handles go in each of 120 orders, each twice", Orders);
        Tap.Case("an engine that is disposed of during a step ends the step", DisposeDuringStep);
        Tap.Case("calls after Dispose throw ObjectDisposedException", UseAfterDispose);
        Tap.Case("1,000 engines come and go in flat memory", Cycles);
    }

    private static void StopAndAbort()
    {
        using (var rig = new Rig())
        {
            rig.Step(1);
            using (var isUnderWay = new ManualResetEventSlim())
            {
                var stopper = new Thread(() =>
                {
                    isUnderWay.Wait();
                    rig.Engine.RequestStop();
                });
                stopper.Start();
                Metrics metrics;
                do
                {
                    metrics = rig.Engine.Step(rig.Batch);
                    isUnderWay.Set();
                } while (!metrics.IsStopped);
                stopper.Join();
                Tap.Check((metrics.Valid & MetricsParts.Step) != 0 && metrics.Loss > 0, "the step was not done");
                Tap.Check(rig.Engine.Step(rig.Batch).Step == metrics.Step + 1, "training does not go on");
            }

            rig.Engine.RequestStop();
            Tap.Check(rig.Engine.Evaluate(rig.Batch) == null, "evaluate did not stop");
            rig.Engine.RequestStop();
            Tap.Check(rig.Engine.Generate(new[] { 1, 2 }, 3) == null, "generate did not stop");
            rig.Engine.RequestStop();
            Tap.Check(!rig.Engine.Score(rig.Batch, new float[Rig.Rows * Rig.Length]), "score did not stop");

            var aborter = new Thread(() =>
            {
                Thread.Sleep(20);
                rig.Engine.Abort();
            });
            aborter.Start();
            var error = Tap.Throws<PlaitException>(() =>
            {
                for (;;) rig.Engine.Step(rig.Batch);
            }, "steps of an aborted engine");
            aborter.Join();
            Tap.Equal(Code.Aborted, error.Code, "code");
            Tap.Equal(Disposition.EngineLost, error.Disposition, "disposition");
            Tap.Equal(EngineState.Lost, rig.Engine.State, "state");
            Tap.Check(rig.Engine.Report("operations").Length > 0, "no report");
        }
    }

    private static IEnumerable<int[]> Permutations(int[] rest)
    {
        if (rest.Length == 0) return new[] { rest };
        return rest.SelectMany(first => Permutations(rest.Where(other => other != first).ToArray())
            .Select(others => new[] { first }.Concat(others).ToArray()));
    }

    private static void Orders()
    {
        int count = 0;
        foreach (int[] order in Permutations(new[] { 0, 1, 2, 3, 4 }))
        {
            var rig = new Rig();
            var handles = new IDisposable[] { rig.Context, rig.Config, rig.Group, rig.Engine, rig.Batch };
            foreach (int index in order) handles[index].Dispose();
            foreach (int index in order) handles[index].Dispose();
            ++count;
        }
        Tap.Equal(120, count, "orders");
        using (var rig = new Rig())
        {
            rig.Context.Dispose();
            rig.Config.Dispose();
            rig.Group.Dispose();
            Tap.Check(rig.Step(1).Loss > 0, "the engine does not live on its own");
        }
    }

    private static void DisposeDuringStep()
    {
        int aborted = 0;
        for (int round = 0; round < 20; ++round)
        {
            using (var rig = new Rig())
            {
                rig.Step(1);
                Exception end = null;
                var stepper = new Thread(() =>
                {
                    try
                    {
                        for (;;) rig.Engine.Step(rig.Batch);
                    }
                    catch (Exception error)
                    {
                        end = error;
                    }
                });
                stepper.Start();
                while (rig.Engine.State != EngineState.Running && stepper.IsAlive) Thread.Yield();
                rig.Engine.Dispose();
                Tap.Check(stepper.Join(5000), "the step did not end");
                var failure = end as PlaitException;
                Tap.Check(end is ObjectDisposedException || failure != null && failure.Code == Code.Aborted,
                    end.ToString());
                if (failure != null) ++aborted;
            }
        }
        Tap.Check(aborted > 0, "no step was aborted");
    }

    private static void UseAfterDispose()
    {
        var folder = new Folder();
        var rig = new Rig();
        BatchView tokens = rig.Batch.Map("tokens", Rig.Rows, Rig.Columns);
        Operation save = rig.Engine.Save(folder.Root);
        save.Wait();
        var checkpoint = new Checkpoint(rig.Context, folder.Root);
        TensorView tensor = checkpoint.Map(checkpoint.Entries.First().Name, checkpoint.Entries.First().Kind);
        var tokenizer = new Tokenizer(rig.Context, "byte");
        foreach (var handle in new IDisposable[] { checkpoint, tokenizer, save, folder, rig }) handle.Dispose();
        var calls = new Dictionary<string, Action>
        {
            { "drain", () => rig.Context.DrainLog(record => { }) },
            { "level", () => rig.Context.SetLogLevel(LogLevel.Info) },
            { "new config", () => new Config(rig.Context) }, { "get", () => Tap.Check(rig.Config["seed"] == "", "") },
            { "set", () => rig.Config["seed"] = "1" }, { "load", () => rig.Config.Load("{}") },
            { "keys", () => rig.Config.DescribeKeys() }, { "dump", () => rig.Config.Dump() },
            { "new group", () => new Group(rig.Context, rig.Config, 0, 1, 1) }, { "card", () => rig.Group.Card() },
            { "commit", () => rig.Group.Commit() }, { "abort group", () => rig.Group.Abort() },
            { "new engine", () => new Engine(rig.Group, rig.Config) }, { "step", () => rig.Engine.Step(rig.Batch) },
            { "empty step", () => rig.Engine.Step() }, { "evaluate", () => rig.Engine.Evaluate() },
            { "spec", () => rig.Engine.BatchSpec() }, { "stop", () => rig.Engine.RequestStop() },
            { "abort", () => rig.Engine.Abort() }, { "close", () => rig.Engine.Close() },
            { "state", () => Tap.Equal(EngineState.Lost, rig.Engine.State, "") },
            { "report", () => rig.Engine.Report("config") }, { "tensors", () => rig.Engine.Tensors.Count() },
            { "save", () => rig.Engine.Save("/nowhere") },
            { "read", () => rig.Engine.ReadTensor("a", TensorKind.Parameter, new float[1]) },
            { "new batch", () => new Batch(rig.Engine) },
            { "set batch", () => rig.Batch.Set("tokens", new int[1], 1, 1) },
            { "map", () => rig.Batch.Map("tokens", 1, 1) }, { "view", () => tokens[0, 0] = 1 },
            { "row", () => tokens.Row(0).Clear() }, { "pointer", () => tokens.Pointer.ToInt64() },
            { "entries", () => checkpoint.Entries.Count() },
            { "map tensor", () => checkpoint.Map("a", TensorKind.Parameter) },
            { "tensor", () => tensor.As<float>().ToArray() }, { "verify", () => checkpoint.Verify() },
            { "encode", () => tokenizer.Encode("a") }, { "size", () => Tap.Equal(0L, tokenizer.VocabSize, "") },
            { "new plan", () => new Plan(rig.Context, rig.Config, 1) }, { "wait", () => save.Wait() },
            { "progress", () => Tap.Equal(0L, save.Progress.DoneBytes, "") }, { "cancel", () => save.Cancel() }
        };
        foreach (KeyValuePair<string, Action> call in calls) Tap.Throws<ObjectDisposedException>(call.Value, call.Key);
    }

    private static void Cycles()
    {
        const int warmUp = 200, cycles = 1000, limitKiB = 8192;
        long before = 0;
        for (int i = 0; i < warmUp + cycles; ++i)
        {
            if (i == warmUp) before = Memory.ResidentAfterCollection();
            using (var rig = new Rig()) rig.Step(i + 1);
        }
        long growth = Memory.ResidentAfterCollection() - before;
        Console.WriteLine("# {0} engines: {1} KiB more", cycles, growth);
        Tap.Check(growth < limitKiB, "memory grew by " + growth + " KiB");
    }
}
