// Trains on the bytes of a file, which it holds in memory; a C# host. The same program stands in every
// host language under samples/host, and all of them print the same line.
//
//   train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]
//
// Progress goes to stderr; the losses go to stdout, in one line. SIGINT and SIGTERM end the run after the
// step in progress; with --checkpoint the state is saved then, as it is at the end. Exit codes: 0 done, 1 an
// error, 2 usage, 3 stopped.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using Plait;

internal static class Train
{
    private static int Main(string[] arguments)
    {
        CultureInfo.DefaultThreadCurrentCulture = CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
        var options = Options.Parse(arguments);
        if (options == null)
        {
            Console.Error.WriteLine("usage: train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]");
            return 2;
        }
        try
        {
            return Run(options);
        }
        catch (PlaitException error)
        {
            Console.Error.WriteLine("train: {0}: {1}", error.CodeName, error.Message);
        }
        catch (IOException error)
        {
            Console.Error.WriteLine("train: {0}", error.Message);
        }
        catch (UnauthorizedAccessException error)
        {
            Console.Error.WriteLine("train: {0}", error.Message);
        }
        return 1;
    }

    private static int Run(Options options)
    {
        int[] text = Array.ConvertAll(File.ReadAllBytes(options.Text), value => (int)value);
        using (var context = new Context())
        using (var config = new Config(context))
        {
            config.Load(File.ReadAllBytes(options.Config));
            long steps = options.Steps > 0 ? options.Steps : Integer(config, "run.steps");
            int world = (int)(Integer(config, "layout.tensor") * Integer(config, "layout.pipeline") *
                              Integer(config, "layout.data"));
            using (var group = new Group(context, config, 0, world, world))
            using (var engine = new Engine(group, config))
            using (new StopSignals(engine.RequestStop))
            {
                var losses = new List<string>();
                // Where a signal ends the load nothing was loaded, and nothing may be saved over what is there.
                bool isStopped = options.IsResumed && engine.Load(options.Root) == null;
                if (!isStopped)
                {
                    isStopped = Steps(engine, text, steps, losses);
                    if (options.Root != null)
                    {
                        using (Operation save = engine.Save(options.Root)) save.Wait();
                    }
                }
                Console.WriteLine(string.Join(" ", losses));
                engine.Close();
                return isStopped ? 3 : 0;
            }
        }
    }

    private static long Integer(Config config, string key)
    {
        return long.Parse(config[key]);
    }

    // Trains up to the last step; true where a signal stopped it.
    private static bool Steps(Engine engine, int[] text, long steps, List<string> losses)
    {
        using (var batch = new Batch(engine))
        {
            BatchSpec spec = engine.BatchSpec();
            while (spec.FirstSample / spec.GlobalRows < steps)
            {
                Fill(batch, spec, text);
                Metrics metrics = engine.Step(batch);
                losses.Add(CText.Format(metrics.Loss));
                Console.Error.WriteLine("step {0}/{1} loss {2:F4} | {3:F0} tokens/s", metrics.Step, steps,
                    metrics.Loss, metrics.TokensPerSecond);
                if (metrics.IsStopped) return true;
                spec = engine.BatchSpec();
            }
        }
        return false;
    }

    // Fills the batch's own memory: sequence j of the run begins at byte j * s, round and round.
    private static void Fill(Batch batch, BatchSpec spec, int[] text)
    {
        long length = spec.SequenceLength;
        if (text.Length < length + 1)
            throw new IOException("the text holds fewer than " + (length + 1) + " bytes");
        BatchView tokens = batch.Map("tokens", spec.GlobalRows, length + 1);
        for (long row = 0; row < spec.GlobalRows; ++row)
        {
            long first = (spec.FirstSample + row) * length % (text.Length - length);
            tokens.CopyFrom(row, new ReadOnlySpan<int>(text, (int)first, (int)length + 1));
        }
    }
}

// The command line; null where it is none.
internal sealed class Options
{
    public string Config, Text, Root;
    public long Steps; // 0: as run.steps of the configuration says
    public bool IsResumed;

    public static Options Parse(string[] arguments)
    {
        var options = new Options();
        for (int i = 0; i < arguments.Length; ++i)
        {
            string argument = arguments[i];
            bool hasValue = i + 1 < arguments.Length;
            if (argument == "--resume") options.IsResumed = true;
            else if (argument == "--steps" && hasValue)
            {
                if (!long.TryParse(arguments[++i], out options.Steps) || options.Steps <= 0) return null;
            }
            else if (argument == "--checkpoint" && hasValue) options.Root = arguments[++i];
            else if (argument.StartsWith("-", StringComparison.Ordinal) || options.Text != null) return null;
            else if (options.Config == null) options.Config = argument;
            else options.Text = argument;
        }
        return options.Text != null && (options.Root != null || !options.IsResumed) ? options : null;
    }
}
