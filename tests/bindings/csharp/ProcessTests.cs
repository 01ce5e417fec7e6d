using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Threading;
using Plait;

// Two processes of one rank each, which meet by cards in files.
internal static class ProcessTests
{
    private const int Steps = 5, World = 2, CardLimitMs = 30000;

    public static void Run()
    {
        Tap.Case("two processes that exchange cards have the losses of one", Pair);
        Tap.Case("a commit that waits is ended by Abort and by Dispose", AbortedCommit);
    }

    // What `mono conformance.exe pair RANK FOLDER` does.
    public static void Child(int rank, string folder)
    {
        using (var context = new Context())
        using (Config config = Rig.MakeConfig(context))
        {
            config["layout.data"] = "2";
            using (var group = new Group(context, config, rank, 1, World))
            {
                Meet(group, rank, folder);
                using (var engine = new Engine(group, config))
                using (var batch = new Batch(engine))
                {
                    Console.WriteLine(Losses(engine, batch));
                    engine.Close();
                }
            }
        }
    }

    private static void Meet(Group group, int rank, string folder)
    {
        string own = Path.Combine(folder, "card." + rank);
        File.WriteAllBytes(own + ".new", group.Card());
        File.Move(own + ".new", own);
        Stopwatch waited = Stopwatch.StartNew();
        for (int other = 0; other < World; ++other)
        {
            string card = Path.Combine(folder, "card." + other);
            while (!File.Exists(card))
            {
                if (waited.ElapsedMilliseconds > CardLimitMs) throw new TimeoutException("no card of rank " + other);
                Thread.Sleep(5);
            }
            group.AddCard(File.ReadAllBytes(card));
        }
        group.Commit(CardLimitMs);
    }

    private static string Losses(Engine engine, Batch batch)
    {
        var losses = new List<string>();
        for (int step = 1; step <= Steps; ++step)
        {
            batch.Set("tokens", Rig.Tokens(step), Rig.Rows, Rig.Columns);
            losses.Add(CText.Format(engine.Step(batch).Loss));
        }
        return string.Join(" ", losses);
    }

    private static void Pair()
    {
        using (var folder = new Folder())
        using (var rig = new Rig(config => config["layout.data"] = "2", World))
        {
            string program = Programs.Quote(typeof(ProcessTests).Assembly.Location);
            var children = new Process[World];
            for (int rank = 0; rank < World; ++rank)
                children[rank] = Programs.Start("mono", program + " pair " + rank + " " + Programs.Quote(folder.Root));
            string expected = Losses(rig.Engine, rig.Batch);
            foreach (Process child in children) Tap.Equal(expected, Programs.Output(child), "losses");
        }
    }

    private static void AbortedCommit()
    {
        foreach (bool isDisposed in new[] { false, true })
        {
            using (var context = new Context())
            using (Config config = Rig.MakeConfig(context))
            {
                config["layout.data"] = "2";
                using (var group = new Group(context, config, 0, 1, World))
                using (var other = new Group(context, config, 1, 1, World))
                {
                    group.AddCard(group.Card());
                    group.AddCard(other.Card());
                    Stopwatch waited = Stopwatch.StartNew();
                    var ender = new Thread(() =>
                    {
                        Thread.Sleep(300); // by then the other thread waits
                        if (isDisposed) group.Dispose();
                        else group.Abort();
                    });
                    ender.Start();
                    var error = Tap.Throws<PlaitException>(() => group.Commit(20000), "a commit without a peer");
                    ender.Join();
                    Tap.Equal(Code.Aborted, error.Code, "code");
                    Tap.Check(waited.ElapsedMilliseconds < 5000, "it took " + waited.ElapsedMilliseconds + " ms");
                }
            }
        }
    }
}
