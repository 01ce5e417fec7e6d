using System;
using System.Threading;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// Work that outlives the call that began it: a save, a check, a conversion. Any thread may call. To dispose of
    /// a running one neither waits for it nor cancels it.
    /// </summary>
    public sealed class Operation : IDisposable
    {
        private readonly OperationHandle handle;

        internal Operation(OperationHandle handle)
        {
            this.handle = handle;
        }

        /// <summary>Waits for the end; throws what it failed with.</summary>
        /// <param name="millisecondsTimeout">Limit of this call; 0 only looks.</param>
        /// <exception cref="PlaitException">
        /// How it failed; or DeadlineExceeded/deadline, where it is still running and goes on.
        /// </exception>
        public void Wait(int millisecondsTimeout = Timeout.Infinite)
        {
            Native.plait_op_wait(handle, millisecondsTimeout);
        }

        /// <summary>State and bytes done, at this moment.</summary>
        public OperationProgress Progress
        {
            get
            {
                using (var progress = new plait_progress())
                {
                    Native.plait_op_progress(handle, progress);
                    return new OperationProgress(progress);
                }
            }
        }

        /// <summary>The JSON report of an operation that succeeded.</summary>
        /// <exception cref="PlaitException">FailedPrecondition/busy while it runs.</exception>
        public string Result()
        {
            string report;
            Native.plait_op_result(handle, out report);
            return report;
        }

        /// <summary>
        /// Asks it to end; it becomes Cancelled unless it was done first. Nothing half-written stays.
        /// </summary>
        public void Cancel()
        {
            Native.plait_op_cancel(handle);
        }

        /// <summary>Frees the handle. A second call does nothing.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }

    /// <summary>How far an operation is.</summary>
    public struct OperationProgress
    {
        internal OperationProgress(plait_progress from)
        {
            State = (OperationState)from.state;
            DoneBytes = from.done_bytes;
            TotalBytes = from.total_bytes;
        }

        /// <summary>Its state.</summary>
        public OperationState State { get; private set; }

        /// <summary>Bytes that are done.</summary>
        public long DoneBytes { get; private set; }

        /// <summary>Bytes in all, 0 as long as it is not known.</summary>
        public long TotalBytes { get; private set; }
    }
}
