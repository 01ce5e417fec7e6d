using System;
using System.Diagnostics;
using System.Globalization;
using System.IO;
using System.Text;

// Runs test cases and prints a TAP line for each. A case fails by throwing.
internal static class Tap
{
    private static int number;

    // Cases whose name has this text in it run; the first argument of a program.
    public static string Filter = "";

    public static int Failed { get; private set; }

    public static void Case(string name, Action body)
    {
        if (name.IndexOf(Filter, StringComparison.Ordinal) < 0) return;
        ++number;
        try
        {
            body();
            Console.WriteLine("ok {0} - {1}", number, name);
        }
        catch (Exception error)
        {
            ++Failed;
            Console.WriteLine("not ok {0} - {1}", number, name);
            Console.WriteLine("# " + error.ToString().Replace("\n", "\n# "));
        }
        Console.Out.Flush();
    }

    public static void Check(bool isTrue, string what)
    {
        if (!isTrue) throw new Exception(what);
    }

    public static void Equal<T>(T expected, T got, string what)
    {
        if (!Equals(expected, got))
            throw new Exception(string.Format(CultureInfo.InvariantCulture, "{0}: expected {1}, got {2}", what,
                expected, got));
    }

    public static T Throws<T>(Action body, string what) where T : Exception
    {
        try
        {
            body();
        }
        catch (T error)
        {
            return error;
        }
        catch (Exception error)
        {
            throw new Exception(what + ": another exception than " + typeof(T).Name, error);
        }
        throw new Exception(what + ": no exception");
    }
}

// Looks at this process from outside of both runtimes.
internal static class Memory
{
    // Resident memory in KiB once nothing is left to collect.
    public static long ResidentAfterCollection()
    {
        for (int i = 0; i < 2; ++i)
        {
            GC.Collect();
            GC.WaitForPendingFinalizers();
        }
        foreach (string line in File.ReadAllLines("/proc/self/status"))
        {
            if (!line.StartsWith("VmRSS:", StringComparison.Ordinal)) continue;
            return long.Parse(line.Substring(6).Replace("kB", "").Trim(), CultureInfo.InvariantCulture);
        }
        throw new Exception("/proc/self/status has no VmRSS");
    }
}

// A directory that goes away with the object.
internal sealed class Folder : IDisposable
{
    public Folder()
    {
        Root = Path.Combine(Path.GetTempPath(), "plait-csharp-" + Guid.NewGuid().ToString("N"));
        Directory.CreateDirectory(Root);
    }

    public string Root { get; private set; }

    public string File(string name)
    {
        return Path.Combine(Root, name);
    }

    public void Dispose()
    {
        Directory.Delete(Root, true);
    }
}

// Programs beside the test.
internal static class Programs
{
    public static Process Start(string program, string arguments)
    {
        return Process.Start(new ProcessStartInfo(program, arguments)
        {
            UseShellExecute = false,
            RedirectStandardOutput = true,
            RedirectStandardInput = true
        });
    }

    // What it prints on stdout; it must end well within the limit.
    public static string Output(Process program, int millisecondsLimit = 60000)
    {
        string output = program.StandardOutput.ReadToEnd().Trim();
        if (!program.WaitForExit(millisecondsLimit))
        {
            program.Kill();
            throw new Exception("a program did not end");
        }
        Tap.Equal(0, program.ExitCode, "exit code of " + program.StartInfo.Arguments);
        return output;
    }

    public static string Quote(string argument)
    {
        return "\"" + argument.Replace("\\", "\\\\").Replace("\"", "\\\"") + "\"";
    }
}

// 64-bit FNV-1a, as reference.c computes it.
internal sealed class Hash
{
    private ulong value = 14695981039346656037;

    public void Add(ReadOnlySpan<byte> bytes)
    {
        ulong hash = value;
        for (int i = 0; i < bytes.Length; ++i) hash = (hash ^ bytes[i]) * 1099511628211;
        value = hash;
    }

    public void Add(string text)
    {
        Add(Encoding.UTF8.GetBytes(text));
    }

    public override string ToString()
    {
        return value.ToString("x16", CultureInfo.InvariantCulture);
    }
}
