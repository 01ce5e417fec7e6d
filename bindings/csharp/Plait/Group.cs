using System;
using System.Runtime.InteropServices;
using System.Threading;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// Which ranks this process drives, and how processes meet: give each process's <see cref="Card"/> to all
    /// others and <see cref="Commit"/>, or <see cref="JoinTcp"/>. A group whose ranks are all in this process is
    /// complete at once. One call at a time, but for <see cref="Abort"/> and <see cref="Dispose"/>.
    /// </summary>
    public sealed class Group : IDisposable
    {
        private int waiting; // calls that wait for other processes

        /// <summary>
        /// This process drives ranks <paramref name="rank"/> … <paramref name="rank"/> +
        /// <paramref name="localRanks"/> - 1 of <paramref name="world"/>. The configuration is copied.
        /// </summary>
        /// <exception cref="PlaitException">InvalidArgument/topology: the numbers do not fit each other.</exception>
        public Group(Context context, Config config, int rank, int localRanks, int world)
        {
            GroupHandle handle;
            Native.plait_group_create(Arguments.Required(context, "context").Handle,
                Arguments.Required(config, "config").Handle, rank, localRanks, world, out handle);
            Handle = handle;
        }

        internal GroupHandle Handle { get; private set; }

        /// <summary>
        /// This process's card, at most 4 KiB: ranks, endpoints, devices, versions, a nonce. Give it to the other
        /// processes by any means.
        /// </summary>
        public byte[] Card()
        {
            byte[] card;
            Native.plait_group_card(Handle, out card);
            return card;
        }

        /// <summary>Adds the card of one process. Any order; the own one is allowed.</summary>
        public unsafe void AddCard(ReadOnlySpan<byte> card)
        {
            fixed (byte* begin = &MemoryMarshal.GetReference(card))
            {
                Native.plait_group_add_card(Handle, (IntPtr)begin, card.Length);
            }
        }

        /// <summary>
        /// Connects to all processes whose cards were added; every process makes the same call. On a complete group it
        /// does nothing.
        /// </summary>
        /// <param name="millisecondsTimeout">Limit of this call; the configured ones hold in any case.</param>
        public void Commit(int millisecondsTimeout = Timeout.Infinite)
        {
            Wait(() => Native.plait_group_commit(Handle, millisecondsTimeout));
        }

        /// <summary>
        /// Exchanges cards by TCP, then commits: the process of rank 0 listens on <paramref name="address"/>
        /// ("host:port"), the others connect to it. Every process makes the same call. On a complete group it does
        /// nothing.
        /// </summary>
        /// <param name="address">
        /// A literal address or localhost: it listens there alone; any other name: on all interfaces.
        /// </param>
        /// <param name="millisecondsTimeout">Limit of this call; the configured ones hold in any case.</param>
        public void JoinTcp(string address, int millisecondsTimeout = Timeout.Infinite)
        {
            Wait(() => Native.plait_group_join_tcp(Handle, address, millisecondsTimeout));
        }

        /// <summary>
        /// Measures "links", "compute" or "all" and returns a configuration fragment {"hardware": …} for the
        /// planner, or null when it was stopped. Every process makes the same call.
        /// </summary>
        public string Measure(string what, int millisecondsTimeout = Timeout.Infinite)
        {
            string profile = null;
            Wait(() => Native.plait_group_measure(Handle, what, millisecondsTimeout, out profile));
            return profile;
        }

        private void Wait(Func<int> call)
        {
            Interlocked.Increment(ref waiting);
            try
            {
                call();
            }
            finally
            {
                Interlocked.Decrement(ref waiting);
            }
        }

        /// <summary>Ends a commit, join or measurement that waits: it throws Aborted. Any thread may call.</summary>
        public void Abort()
        {
            Native.plait_group_abort(Handle);
        }

        /// <summary>
        /// Frees the handle; a call that waits is aborted. An engine made from it goes on. A second call does
        /// nothing. Any thread may call.
        /// </summary>
        public void Dispose()
        {
            try
            {
                if (!Handle.IsClosed && Volatile.Read(ref waiting) > 0) Abort();
            }
            catch (ObjectDisposedException)
            {
                // Another thread was faster.
            }
            Handle.Dispose();
        }
    }
}
