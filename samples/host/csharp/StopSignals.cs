using System;
#if NET6_0_OR_GREATER
using System.Runtime.InteropServices;
#else
using System.Threading;
using Mono.Unix;
using Mono.Unix.Native;
#endif

// Calls a handler, on a thread that may do anything, for SIGINT and SIGTERM, as long as it is not disposed of.
// Console.CancelKeyPress would serve SIGINT alone. .NET has PosixSignalRegistration; Mono has UnixSignal, in
// Mono.Posix, which comes with Debian's libmono-cil-dev.
#if NET6_0_OR_GREATER
internal sealed class StopSignals : IDisposable
{
    private readonly PosixSignalRegistration interrupt, terminate;

    public StopSignals(Action handler)
    {
        Action<PosixSignalContext> handle = signal =>
        {
            signal.Cancel = true;
            handler();
        };
        interrupt = PosixSignalRegistration.Create(PosixSignal.SIGINT, handle);
        terminate = PosixSignalRegistration.Create(PosixSignal.SIGTERM, handle);
    }

    public void Dispose()
    {
        interrupt.Dispose();
        terminate.Dispose();
    }
}
#else
internal sealed class StopSignals : IDisposable
{
    private const int MillisecondsBetweenLooks = 50;

    private readonly UnixSignal[] signals = { new UnixSignal(Signum.SIGINT), new UnixSignal(Signum.SIGTERM) };
    private readonly Thread thread;
    private volatile bool isDisposed;

    public StopSignals(Action handler)
    {
        thread = new Thread(() =>
        {
            while (!isDisposed)
            {
                UnixSignal.WaitAny(signals, MillisecondsBetweenLooks);
                // It sees what comes while it waits; Reset tells of what came just before or after, too.
                bool isAsked = false;
                foreach (UnixSignal signal in signals) isAsked |= signal.Reset();
                if (isAsked && !isDisposed) handler();
            }
        });
        thread.IsBackground = true;
        thread.Start();
    }

    // After it the signals do what they did before.
    public void Dispose()
    {
        isDisposed = true;
        thread.Join();
        foreach (UnixSignal signal in signals) signal.Dispose();
    }
}
#endif
