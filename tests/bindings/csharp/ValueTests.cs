using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using Plait;

// Numbers, texts and errors on their way to the library and back.
internal static class ValueTests
{
    private const string Odd = "Z\u00FCrich \u6771\u4EAC \U0001F682\U0001F9F5";

    public static void Run()
    {
        Tap.Case("2^31, 2^32+5, 2^40, 2^53+1 and 2^63-1 come back as they went", Numbers);
        Tap.Case("the same numbers come back as properties of a checkpoint and as a seed", StoredNumbers);
        Tap.Case("texts beyond the BMP come back from values, and stand in a path", Texts);
        Tap.Case("a text with a NUL or half a surrogate pair is refused", BrokenTexts);
        Tap.Case("losses are written as C writes them", Losses);
        Tap.Case("an error has code, word, rank, disposition, details", Errors);
        Tap.Case("8 threads read their own of 10,000 different errors each", ErrorsOfThreads);
    }

    private static readonly long[] Integers =
    {
        0, -1, 1L << 31, (1L << 32) + 5, 1L << 40, (1L << 53) + 1, long.MaxValue, long.MinValue
    };

    private static void Numbers()
    {
        double[] reals = { 0.1, -0.0, double.Epsilon, double.MaxValue, double.NegativeInfinity };
        byte[] data = Enumerable.Range(0, 256).Select(i => (byte)i).ToArray();
        for (int i = 0; i < Integers.Length; ++i)
        {
            double real = reals[i % reals.Length], realBack;
            string textBack;
            byte[] dataBack;
            long back = Experimental.Echo(Integers[i], real, "", new ReadOnlySpan<byte>(data, 0, 32 * i),
                out realBack, out textBack, out dataBack);
            Tap.Equal(Integers[i], back, "integer");
            Tap.Equal(BitConverter.DoubleToInt64Bits(real), BitConverter.DoubleToInt64Bits(realBack), "real");
            Tap.Equal("", textBack, "text");
            Tap.Check(data.Take(32 * i).SequenceEqual(dataBack), "bytes");
        }
    }

    private static void StoredNumbers()
    {
        using (var folder = new Folder())
        using (var rig = new Rig(config => config["seed"] = "9223372036854775807"))
        {
            Tap.Equal("9223372036854775807", rig.Config["seed"], "seed");
            for (int i = 0; i < Integers.Length; ++i) rig.Engine.SetProperty("n" + i, Integers[i]);
            rig.Engine.SetProperty("real", 1.0 / 3);
            rig.Engine.SetProperty("text", Odd);
            using (Operation save = rig.Engine.Save(folder.Root)) save.Wait();
            using (var checkpoint = new Checkpoint(rig.Context, folder.Root))
            {
                Dictionary<string, EntryInfo> properties = checkpoint.Entries
                    .Where(entry => entry.PropertyType != PropertyType.None).ToDictionary(entry => entry.Name);
                for (int i = 0; i < Integers.Length; ++i)
                    Tap.Equal(Integers[i], properties["n" + i].Integer, "property");
                Tap.Equal(1.0 / 3, properties["real"].Real, "property");
                Tap.Equal(Odd, properties["text"].Text, "property");
            }
        }
    }

    private static void Texts()
    {
        using (var folder = new Folder())
        using (var rig = new Rig())
        {
            double real;
            string text;
            byte[] data;
            Experimental.Echo(0, 0, Odd, new byte[0], out real, out text, out data);
            Tap.Equal(Odd, text, "echo");
            rig.Config["run.checkpoint"] = Odd;
            Tap.Equal(Odd, rig.Config["run.checkpoint"], "value");
            var unknown = Tap.Throws<PlaitException>(() => rig.Config[Odd] = "1", "an unknown key");
            Tap.Check(unknown.Message.Contains(Odd), unknown.Message);

            string root = folder.File(Odd);
            using (Operation save = rig.Engine.Save(root)) save.Wait();
            Tap.Check(Directory.Exists(root), "the directory has another name");
            Tap.Check(Checkpoint.List(rig.Context, root).Contains("step"), "the list has no step");
            using (var tokenizer = new Tokenizer(rig.Context, "byte"))
            {
                int[] tokens = tokenizer.Encode(Odd);
                Tap.Equal(System.Text.Encoding.UTF8.GetByteCount(Odd), tokens.Length, "tokens");
                Tap.Equal(Odd, System.Text.Encoding.UTF8.GetString(tokenizer.Decode(tokens)), "decoded");
            }
        }
    }

    private static void BrokenTexts()
    {
        using (var context = new Context())
        using (var config = new Config(context))
        {
            foreach (string broken in new[] { "a\0b", "\uD83D", "\uDE82 first" })
            {
                Tap.Throws<ArgumentException>(() => config["run.checkpoint"] = broken, "value");
                Tap.Throws<ArgumentException>(() => config[broken] = "1", "key");
                Tap.Throws<ArgumentException>(() => new Checkpoint(context, broken), "path");
            }
        }
    }

    private static void Losses()
    {
        var texts = new Dictionary<double, string>
        {
            { 5.5986493605945888, "5.5986493605945888" }, { 801280302368700.625, "801280302368700.62" },
            { 4.0000076293945312, "4.0000076293945312" }, { 1, "1" }, { 0.0001, "0.0001" },
            { 0.00001, "1.0000000000000001e-05" }, { 0.75, "0.75" }, { 10.5, "10.5" }, { 1e17, "1e+17" },
            { 123456789012345678, "1.2345678901234568e+17" }, { 12345678901234567, "12345678901234568" },
            { 5e-324, "4.9406564584124654e-324" }, { double.MaxValue, "1.7976931348623157e+308" },
            { -2.5, "-2.5" }, { double.NaN, "nan" }, { double.NegativeInfinity, "-inf" }, { 100, "100" }
        };
        foreach (KeyValuePair<double, string> text in texts) Tap.Equal(text.Value, CText.Format(text.Key), "text");
        Tap.Equal("-0", CText.Format(-0.0), "text");
    }

    private static void Errors()
    {
        using (var context = new Context())
        using (var config = new Config(context))
        {
            var error = Tap.Throws<PlaitException>(() => config["model.layerz"] = "1", "an unknown key");
            Tap.Equal(Code.InvalidArgument, error.Code, "code");
            Tap.Equal("INVALID_ARGUMENT", error.CodeName, "name");
            Tap.Equal("argument", error.Word, "word");
            Tap.Equal(-1, error.Rank, "rank");
            Tap.Equal(Disposition.Unchanged, error.Disposition, "disposition");
            Tap.Equal(0L, error.HostCode, "host code");
            Tap.Check(error.Message.StartsWith("argument: ", StringComparison.Ordinal), error.Message);
            Tap.Check(error.Details.Contains("model.layers"), error.Details);
            Tap.Equal("config", error.Subsystem, "subsystem");
            error = Tap.Throws<PlaitException>(() => new Group(context, config, 1, 1, 1), "a rank beyond the world");
            Tap.Equal("topology", error.Word, "word");
            Tap.Throws<ArgumentNullException>(() => new Config(null), "no context");
            Tap.Equal(null, Library.BuildInfo("no such fact"), "an unknown fact");
            Tap.Equal(Library.ApiVersion, Library.Version / 1000 * 1000, "version");
            Tap.Equal("UNKNOWN", Library.CodeName((Code)12345), "a code of the future");
        }
    }

    private static void ErrorsOfThreads()
    {
        const int threads = 8, times = 10000;
        using (var context = new Context())
        {
            var wrong = new string[threads];
            var all = new Thread[threads];
            for (int t = 0; t < threads; ++t)
            {
                int id = t;
                all[t] = new Thread(() =>
                {
                    for (int i = 0; i < times && wrong[id] == null; ++i)
                    {
                        string kind = "kind-" + id + "-" + i;
                        try
                        {
                            new Tokenizer(context, kind).Dispose();
                            wrong[id] = "no exception for " + kind;
                        }
                        catch (PlaitException error)
                        {
                            if (error.Details.IndexOf("\"" + kind + "\"", StringComparison.Ordinal) < 0)
                                wrong[id] = kind + " reads " + error.Details;
                        }
                    }
                });
                all[t].Start();
            }
            foreach (Thread thread in all) thread.Join();
            foreach (string text in wrong) Tap.Check(text == null, text);
        }
    }
}
