using System;
using System.Globalization;
using System.Threading;

// Conformance of the C# binding, while a second thread forces collections all the time.
//
//   conformance REFERENCE [FILTER]    REFERENCE: the compiled reference.c
//   conformance pair RANK FOLDER      one of two processes that train together
internal static class Conformance
{
    private static volatile bool isOver;

    private static int Main(string[] arguments)
    {
        CultureInfo.DefaultThreadCurrentCulture = CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
        if (arguments[0] == "pair")
        {
            ProcessTests.Child(int.Parse(arguments[1]), arguments[2]);
            return 0;
        }
        if (arguments.Length > 1) Tap.Filter = arguments[1];
        int collections = 0;
        var collector = new Thread(() =>
        {
            while (!isOver)
            {
                GC.Collect();
                GC.WaitForPendingFinalizers();
                ++collections;
                Thread.Sleep(20);
            }
        });
        collector.Start();
        ValueTests.Run();
        LifetimeTests.Run();
        LogTests.Run();
        TensorTests.Run(arguments[0]);
        ProcessTests.Run();
        isOver = true;
        collector.Join();
        Tap.Case("a second thread forced collections meanwhile", () =>
        {
            Console.WriteLine("# {0} collections", collections);
            Tap.Check(collections > 100, "too few collections: " + collections);
        });
        return Tap.Failed == 0 ? 0 : 1;
    }
}
