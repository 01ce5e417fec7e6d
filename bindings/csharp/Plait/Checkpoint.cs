using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// A checkpoint (a root, or one step's directory) or a Hugging Face directory, open without engine or device.
    /// One call at a time.
    /// </summary>
    public sealed class Checkpoint : IDisposable
    {
        private readonly CheckpointHandle handle;

        /// <summary>Opens it.</summary>
        public Checkpoint(Context context, string path)
        {
            Native.plait_checkpoint_open(Arguments.Required(context, "context").Handle, path, out handle);
        }

        /// <summary>JSON about the steps under <paramref name="root"/>. Any thread may call.</summary>
        public static string List(Context context, string root)
        {
            string report;
            Native.plait_checkpoint_list(Arguments.Required(context, "context").Handle, root, out report);
            return report;
        }

        /// <summary>
        /// JSON about what is open: format, step, model, layout, optimizer, data position, digests, as far as the
        /// format has them.
        /// </summary>
        public string Report()
        {
            string report;
            Native.plait_checkpoint_report(handle, out report);
            return report;
        }

        /// <summary>Number of entries.</summary>
        public long EntryCount
        {
            get { return Native.plait_checkpoint_entry_count(handle); }
        }

        /// <summary>All entries: logical tensors and kinds in name and kind order, then properties.</summary>
        public IEnumerable<EntryInfo> Entries
        {
            get
            {
                long count = EntryCount;
                using (var info = new plait_entry_info())
                {
                    for (long index = 0; index < count; ++index)
                    {
                        Native.plait_checkpoint_entry_at(handle, index, info);
                        yield return new EntryInfo(info);
                    }
                }
            }
        }

        /// <summary>
        /// Sets a key for later calls on what is open; null is its default. checkpoint.mmap alone: "true" says that
        /// the storage is trusted, since a file that is cut short under a mapping ends the process.
        /// </summary>
        public void Set(string key, string value)
        {
            Native.plait_checkpoint_set(handle, key, value);
        }

        /// <summary>
        /// One whole tensor, verified, row-major, in the stored type, without a copy in managed memory.
        /// </summary>
        public TensorView Map(string name, TensorKind kind)
        {
            IntPtr data;
            long bytes;
            Native.plait_checkpoint_map(handle, name, (int)kind, out data, out bytes);
            return new TensorView(this, data, bytes);
        }

        internal bool IsClosed
        {
            get { return handle.IsClosed; }
        }

        /// <summary>
        /// Reads and checks everything; damage is DataLoss with all of it in the details. Where
        /// <paramref name="isFull"/>, gaps and unread parts too.
        /// </summary>
        public Operation Verify(bool isFull = false)
        {
            OperationHandle operation;
            Native.plait_checkpoint_verify(handle, isFull ? 1 : 0, out operation);
            return new Operation(operation);
        }

        /// <summary>Writes what is open as a checkpoint under <paramref name="root"/> in another layout.</summary>
        public Operation Convert(Config layout, string root)
        {
            OperationHandle operation;
            Native.plait_checkpoint_convert(handle, Arguments.Required(layout, "layout").Handle, root, out operation);
            return new Operation(operation);
        }

        /// <summary>
        /// Writes a Hugging Face directory by keys export.* (<paramref name="options"/> null: their defaults); it
        /// appears whole or not at all.
        /// </summary>
        public Operation ExportHuggingFace(string directory, Config options = null)
        {
            OperationHandle operation;
            Native.plait_checkpoint_export_hf(handle, Config.Optional(options), directory, out operation);
            return new Operation(operation);
        }

        /// <summary>Frees the handle and with it the memory of all views. A second call does nothing.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }

    /// <summary>
    /// Memory of a tensor of a checkpoint, to be read. A Span or a pointer that was taken from it is good until the
    /// checkpoint is disposed of or collected, and nobody checks that.
    /// </summary>
    public sealed class TensorView
    {
        private readonly Checkpoint owner;
        private readonly IntPtr data;

        internal TensorView(Checkpoint owner, IntPtr data, long bytes)
        {
            this.owner = owner;
            this.data = data;
            Bytes = bytes;
        }

        /// <summary>Size in bytes.</summary>
        public long Bytes { get; private set; }

        /// <summary>Address of the first byte.</summary>
        /// <exception cref="ObjectDisposedException">The checkpoint was disposed of.</exception>
        public IntPtr Pointer
        {
            get
            {
                if (owner.IsClosed) throw new ObjectDisposedException("Checkpoint");
                return data;
            }
        }

        /// <summary>Some bytes of it.</summary>
        public unsafe ReadOnlySpan<byte> Slice(long offset, int count)
        {
            if (offset < 0 || offset > Bytes) throw new ArgumentOutOfRangeException("offset");
            if (count < 0 || count > Bytes - offset) throw new ArgumentOutOfRangeException("count");
            return new ReadOnlySpan<byte>((byte*)Pointer + offset, count);
        }

        /// <summary>
        /// All of it as numbers of the stored type. For more than 2^31 - 1 bytes use <see cref="Slice"/>.
        /// </summary>
        public ReadOnlySpan<T> As<T>() where T : struct
        {
            return MemoryMarshal.Cast<byte, T>(Slice(0, checked((int)Bytes)));
        }
    }
}
