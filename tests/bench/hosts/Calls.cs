// What a call costs in C#, and where a batch is filled; see calls.c.
//
//   calls CONFIG time CALLS TURNS
//   calls CONFIG feed STEPS
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Linq;
using Plait;

internal static class Calls
{
    private static int Main(string[] arguments)
    {
        bool isTime = arguments.Length == 4 && arguments[1] == "time";
        if (!isTime && !(arguments.Length == 3 && arguments[1] == "feed"))
        {
            Console.Error.WriteLine("usage: calls CONFIG time CALLS TURNS | calls CONFIG feed STEPS");
            return 2;
        }
        using (var context = new Context())
        using (var config = new Config(context))
        {
            config.Load(File.ReadAllBytes(arguments[0]));
            using (var group = new Group(context, config, 0, 1, 1))
            using (var engine = new Engine(group, config))
            {
                int number = int.Parse(arguments[2]);
                if (isTime) PrintTimes(engine, number, int.Parse(arguments[3]));
                else PrintAddresses(engine, number);
            }
        }
        return 0;
    }

    private static void PrintTimes(Engine engine, int calls, int turns)
    {
        int version = Library.Version;
        Console.WriteLine("{{\"state\": [{0}], \"version\": [{1}]}}",
            Times(calls, turns, () => engine.State == EngineState.Ready),
            Times(calls, turns, () => Library.Version == version));
    }

    // Nanoseconds of a call of each turn; `call` tells whether its answer was right.
    private static string Times(int calls, int turns, Func<bool> call)
    {
        var times = new List<string>();
        for (int turn = 0; turn < turns; ++turn)
        {
            int right = 0;
            var watch = Stopwatch.StartNew();
            for (int i = 0; i < calls; ++i)
            {
                if (call()) ++right;
            }
            watch.Stop();
            if (right != calls) throw new InvalidOperationException("a call gave a wrong answer");
            double seconds = (double)watch.ElapsedTicks / Stopwatch.Frequency;
            times.Add((1e9 * seconds / calls).ToString("F2", CultureInfo.InvariantCulture));
        }
        return string.Join(", ", times);
    }

    private static void PrintAddresses(Engine engine, int steps)
    {
        BatchSpec spec = engine.BatchSpec();
        long rows = spec.GlobalRows, columns = spec.SequenceLength + 1;
        var addresses = new List<long>();
        using (var batch = new Batch(engine))
        {
            for (int step = 0; step < steps; ++step)
            {
                BatchView tokens = batch.Map("tokens", rows, columns);
                Span<int> values = tokens.Values;
                for (int i = 0; i < values.Length; ++i) values[i] = (step + i) % 256;
                engine.Step(batch);
                addresses.Add(tokens.Pointer.ToInt64());
            }
            int[] own = Enumerable.Range(0, (int)(rows * columns)).Select(i => (steps + i) % 256).ToArray();
            batch.Set("tokens", own, rows, columns);
            engine.Step(batch);
        }
        Console.WriteLine("{{\"bytes\": {0}, \"addresses\": [{1}]}}", 4 * rows * columns, string.Join(", ", addresses));
    }
}
