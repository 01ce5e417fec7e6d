using System;
using System.IO;
using System.Text;
using Plait;

// A tiny engine with all that belongs to it. A step takes a millisecond or so.
internal sealed class Rig : IDisposable
{
    public const int Rows = 4, Length = 32, Columns = Length + 1, Vocabulary = 256;

    public Rig(Action<Config> change = null, int world = 1)
    {
        Context = new Context();
        Config = MakeConfig(Context);
        if (change != null) change(Config);
        Group = new Group(Context, Config, 0, world, world);
        Engine = new Engine(Group, Config);
        Batch = new Batch(Engine);
    }

    public Context Context { get; private set; }
    public Config Config { get; private set; }
    public Group Group { get; private set; }
    public Engine Engine { get; private set; }
    public Batch Batch { get; private set; }

    public static Config MakeConfig(Context context)
    {
        var config = new Config(context);
        config.Load(@"{""model"": {""family"": ""gpt2"", ""layers"": 2, ""hidden"": 32, ""heads"": 2,
            ""vocab_size"": 256, ""sequence_length"": 32}, ""train"": {""global_batch"": 4}, ""threads"": 1}");
        return config;
    }

    // Token `column` of row `row` in step `step`.
    public static int Token(int step, int row, int column)
    {
        return (step * 31 + row * 17 + column * (1 + row)) % Vocabulary;
    }

    public static int[] Tokens(int step)
    {
        var values = new int[Rows * Columns];
        for (int i = 0; i < values.Length; ++i) values[i] = Token(step, i / Columns, i % Columns);
        return values;
    }

    public Metrics Step(int step)
    {
        Batch.Set("tokens", Tokens(step), Rows, Columns);
        return Engine.Step(Batch);
    }

    public void Dispose()
    {
        Batch.Dispose();
        Engine.Dispose();
        Group.Dispose();
        Config.Dispose();
        Context.Dispose();
    }
}

// A Hugging Face directory whose config.json has keys that nobody knows: each load of it writes a warning into the
// log for each of them.
internal static class Warnings
{
    public static void Prepare(Folder folder, int count)
    {
        var text = new StringBuilder(@"{""architectures"":[""GPT2LMHeadModel""], ""model_type"":""gpt2"",
            ""n_layer"":1, ""n_embd"":4, ""n_head"":2, ""vocab_size"":8, ""n_positions"":6");
        for (int i = 0; i < count; ++i) text.Append(",\n\"no such key ").Append(i).Append(" \U0001F9F5\":1");
        File.WriteAllText(folder.File("config.json"), text.Append('}').ToString());
    }

    public static void Provoke(Context context, Folder folder)
    {
        using (var config = new Config(context)) config.LoadHuggingFace(folder.Root);
    }
}
