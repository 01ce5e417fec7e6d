using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using Plait;

// Batches in place, weights out and in, what C reads of them.
internal static class TensorTests
{
    private static string reference;

    // `program` is the compiled reference.c.
    public static void Run(string program)
    {
        reference = program;
        Tap.Case("map fills the batch's own memory in place", Map);
        Tap.Case("a view of another shape, or beyond its rows, is refused", Views);
        Tap.Case("all weights are read, perturbed, written and read again: the bytes that C reads", Weights);
        Tap.Case("a manifest above 1 MB has the entry list that C reads", Manifest);
        Tap.Case("an operation is polled while the engine steps", Polling);
        Tap.Case("a plan has candidates, where the planner is built", Plans);
        Tap.Case("gradients of a cut batch, evaluation, scores, generation and a dataset", Calls);
    }

    private static void Map()
    {
        using (var mapped = new Rig())
        using (var copied = new Rig())
        {
            BatchView tokens = mapped.Batch.Map("tokens", Rig.Rows, Rig.Columns);
            long address = tokens.Pointer.ToInt64();
            Tap.Equal(0L, address % 64, "alignment");
            for (int step = 1; step <= 5; ++step)
            {
                for (int row = 0; row < Rig.Rows; ++row)
                {
                    if (step % 2 == 0) tokens.CopyFrom(row, Rig.Tokens(step).AsSpan(row * Rig.Columns, Rig.Columns));
                    else
                        for (int i = 0; i < Rig.Columns; ++i) tokens[row, i] = Rig.Token(step, row, i);
                }
                Tap.Equal(copied.Step(step).Loss, mapped.Engine.Step(mapped.Batch).Loss, "loss");
                BatchView again = mapped.Batch.Map("tokens", Rig.Rows, Rig.Columns);
                Tap.Equal(address, again.Pointer.ToInt64(), "address");
                Tap.Check(again.Values.SequenceEqual(Rig.Tokens(step)), "content");
            }
        }
    }

    private static void Views()
    {
        using (var rig = new Rig())
        {
            BatchView old = rig.Batch.Map("tokens", Rig.Rows, Rig.Columns);
            int[][] outside = { new[] { -1, 0 }, new[] { Rig.Rows, 0 }, new[] { 0, -1 }, new[] { 0, Rig.Columns } };
            foreach (int[] place in outside)
                Tap.Throws<ArgumentOutOfRangeException>(() => old[place[0], place[1]] = 1, "a place outside");
            Tap.Throws<ArgumentException>(() => old.CopyFrom(0, new int[Rig.Columns + 1]), "a row too long");
            const long half = 1L << 32, quarter = 1L << 62;
            Tap.Throws<ArgumentException>(() => rig.Batch.Set("tokens", new int[5], 2, 3), "too few values");
            Tap.Throws<ArgumentException>(() => rig.Batch.Set("tokens", new int[0], half, half), "a product of 0");
            Tap.Throws<ArgumentException>(() => rig.Batch.Set("tokens", new int[4], quarter + 1, 4), "a product of 4");
            Tap.Equal(7, old[0, 0] = 7, "the view after refusals");
            BatchView grown = rig.Batch.Map("tokens", Rig.Rows + 1, Rig.Columns);
            Tap.Throws<InvalidOperationException>(() => old[0, 0] = 1, "a view of another shape");
            grown[Rig.Rows, 0] = 3;
            rig.Batch.Remove("tokens");
            Tap.Throws<InvalidOperationException>(() => grown[0, 0] = 1, "a view of a removed tensor");
            Tap.Throws<PlaitException>(() => rig.Batch.Map("nonsense", 1, 1), "an unknown tensor");
            Tap.Throws<PlaitException>(() => rig.Batch.Map("tokens", 1L << 40, 1L << 40), "a large tensor");
        }
    }

    private static string Reference(string command, string path)
    {
        return Programs.Output(Programs.Start(reference, command + " " + Programs.Quote(path)));
    }

    private static void Weights()
    {
        using (var folder = new Folder())
        using (var rig = new Rig())
        {
            rig.Step(1);
            List<EntryInfo> weights = rig.Engine.Tensors.Where(one => one.Kind == TensorKind.Parameter).ToList();
            Tap.Check(weights.Count > 20, "too few weights");
            var all = new Dictionary<string, float[]>();
            foreach (EntryInfo one in weights)
            {
                Tap.Equal(one.Elements, one.Shape.Aggregate(1L, (product, size) => product * size), one.Name);
                var values = new float[one.Elements];
                rig.Engine.ReadTensor(one.Name, one.Kind, values);
                Tap.Check(values.All(value => Math.Abs(value) < 10), one.Name + " was not read");
                for (int i = 0; i < values.Length; ++i) values[i] += (i % 7 - 3) * 0.001f;
                rig.Engine.WriteTensor(one.Name, one.Kind, values);
                all[one.Name] = values;
            }
            var hash = new Hash();
            foreach (EntryInfo one in weights)
            {
                var values = new float[one.Elements];
                rig.Engine.ReadTensor(one.Name, one.Kind, values);
                Tap.Check(values.SequenceEqual(all[one.Name]), one.Name + " differs from what was written");
                hash.Add(one.Name);
                hash.Add(MemoryMarshal.AsBytes(values.AsSpan()));
            }
            Tap.Throws<PlaitException>(
                () => rig.Engine.ReadTensor(weights[0].Name, TensorKind.Parameter, new float[1]), "a wrong length");
            using (Operation save = rig.Engine.Save(folder.Root)) save.Wait();
            Tap.Equal(Reference("weights", folder.Root), hash.ToString(), "hash");
            using (var checkpoint = new Checkpoint(rig.Context, folder.Root))
            {
                TensorView view = checkpoint.Map(weights[0].Name, TensorKind.Parameter);
                Tap.Check(view.As<float>().SequenceEqual(all[weights[0].Name]), "the view of a checkpoint");
            }
        }
    }

    private static void Manifest()
    {
        using (var folder = new Folder())
        using (var rig = new Rig(config =>
        {
            config["model.layers"] = "450"; // 10,000 entries and more
            config["model.hidden"] = "4";
        }))
        {
            rig.Engine.SetProperty("text", "\U0001F682");
            rig.Engine.SetProperty("real", -0.1);
            rig.Engine.SetProperty("integer", long.MinValue);
            using (Operation save = rig.Engine.Save(folder.Root)) save.Wait();
            string manifest = Directory.GetFiles(folder.Root, "MANIFEST", SearchOption.AllDirectories).Single();
            Tap.Check(new FileInfo(manifest).Length > 1 << 20, new FileInfo(manifest).Length + " bytes");
            var hash = new Hash();
            using (var checkpoint = new Checkpoint(rig.Context, folder.Root))
            {
                Tap.Check(checkpoint.EntryCount > 10000, checkpoint.EntryCount + " entries");
                foreach (EntryInfo entry in checkpoint.Entries) hash.Add(Line(entry));
            }
            Tap.Equal(Reference("entries", folder.Root), hash.ToString(), "hash");
        }
    }

    // As reference.c writes it.
    private static string Line(EntryInfo entry)
    {
        if (entry.PropertyType != PropertyType.None)
            return string.Join(" ", entry.Name, (int)entry.PropertyType, entry.Integer,
                BitConverter.DoubleToInt64Bits(entry.Real), entry.Text) + "\n";
        return string.Join(" ", entry.Name, (int)entry.Kind, (int)entry.ElementType, string.Join("x", entry.Shape),
            entry.Elements, entry.Digest) + "\n";
    }

    private static void Polling()
    {
        using (var folder = new Folder())
        using (var rig = new Rig())
        {
            rig.Step(1);
            using (Operation save = rig.Engine.Save(folder.Root))
            {
                OperationProgress progress;
                int steps = 1;
                do
                {
                    progress = save.Progress;
                    Tap.Check(progress.DoneBytes >= 0 && progress.State != OperationState.Failed, "progress");
                    rig.Step(++steps);
                } while (progress.State == OperationState.Running);
                Tap.Equal(OperationState.Done, progress.State, "state");
                Tap.Check(progress.TotalBytes > 0 && progress.DoneBytes == progress.TotalBytes, "bytes done");
                save.Wait(0);
                Tap.Check(save.Result().StartsWith("{", StringComparison.Ordinal), save.Result());
            }
            double next = rig.Step(3).Loss;
            using (var other = new Rig())
            {
                Tap.Check(other.Engine.Load(folder.Root).Contains("step"), "no report");
                Tap.Equal(1L, other.Engine.BatchSpec().FirstSample / Rig.Rows, "the step to go on from");
                Tap.Check(other.Step(2).Loss > 0 && next > 0, "no loss");
            }
            using (var checkpoint = new Checkpoint(rig.Context, folder.Root))
            using (Operation verify = checkpoint.Verify(true))
            {
                verify.Wait();
                Tap.Check(checkpoint.Report().StartsWith("{", StringComparison.Ordinal), "no report");
            }
            using (Operation again = rig.Engine.Save(folder.Root)) again.Wait();
            var missing = Tap.Throws<PlaitException>(() => rig.Engine.Load(folder.File("nothing")), "no checkpoint");
            Tap.Equal(Code.NotFound, missing.Code, "code");
        }
    }

    private static void Plans()
    {
        using (var rig = new Rig())
        {
            using (var plan = new Plan(rig.Context, rig.Config, 1))
            {
                Tap.Equal(1L, plan.Count, "candidates");
                Tap.Check(plan[0].IsFeasible && plan.RankAt(0, 0).WeightBytes > 0, "the plan");
                Tap.Check(plan.Report(0, "memory").Length > 0, "no report");
                plan.Apply(0, rig.Config);
                Tap.Equal("1", rig.Config["layout.tensor"], "degree");
            }
        }
    }

    private static void Calls()
    {
        using (var whole = new Rig())
        using (var cut = new Rig())
        {
            double loss = whole.Step(1).Loss;
            cut.Batch.Set("tokens", Rig.Tokens(1), Rig.Rows, Rig.Columns);
            double before = cut.Engine.Evaluate(cut.Batch).Loss;
            Tap.Equal(loss, before, "loss of an evaluation");
            var losses = new float[Rig.Rows * Rig.Length];
            Tap.Check(cut.Engine.Score(cut.Batch, losses), "the score was stopped");
            Tap.Check(Math.Abs(losses.Average() - before) < 1e-5, "mean of the scores");
            cut.Engine.ForwardBackward(cut.Batch);
            Metrics update = cut.Engine.OptimizerStep();
            Tap.Equal(1L, update.Step, "step");
            Tap.Equal(whole.Step(2).Loss, cut.Step(2).Loss, "loss after an update in two calls");
            int[] text = cut.Engine.Generate(new[] { 1, 2, 3 }, 5);
            Tap.Check(text.Length == 5 && text.All(id => id >= 0 && id < Rig.Vocabulary), "generated ids");
            Tap.Equal(2.0, cut.Engine.Counter("steps"), "counter");
        }
        using (var folder = new Folder())
        {
            string path = folder.File("tokens");
            var ids = new byte[2 * 4000]; // flat uint16
            for (int i = 0; i < ids.Length; i += 2) ids[i] = (byte)(i * 7);
            File.WriteAllBytes(path, ids);
            using (var rig = new Rig(config => config["data.train"] = path))
            using (var dataset = new Dataset(rig.Context, rig.Config, "train"))
            {
                DatasetInfo info = dataset.Describe();
                Tap.Equal(4000L, info.Tokens, "tokens");
                Tap.Equal(2 * Rig.Columns, dataset.Read("tokens", 0, 2).Length, "values read");
                rig.Engine.AttachDataset("train", dataset);
                Tap.Check(rig.Engine.Step().Loss > 0, "no loss");
                rig.Engine.AttachDataset("train", null);
                Tap.Throws<PlaitException>(() => rig.Engine.Step(), "a step without data");
            }
        }
    }
}
