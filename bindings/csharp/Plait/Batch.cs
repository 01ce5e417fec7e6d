using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// The int32 tensors of a step, row-major: "tokens" [rows, sequence length + 1] (or [rows, sequence length]
    /// beside "targets"), "targets" [rows, sequence length] (-1: ignored), "documents" (shaped as tokens). One call
    /// at a time. The engine copies what it reads: after a call the batch may be changed.
    /// </summary>
    public sealed class Batch : IDisposable
    {
        private readonly Dictionary<string, BatchView> views = new Dictionary<string, BatchView>();

        /// <summary>An empty batch for an engine.</summary>
        public Batch(Engine engine, BatchScope scope = BatchScope.Global)
        {
            BatchHandle handle;
            Native.plait_batch_create(Arguments.Required(engine, "engine").Handle, (int)scope, out handle);
            Handle = handle;
        }

        internal BatchHandle Handle { get; private set; }

        internal static BatchHandle Optional(Batch batch)
        {
            return batch == null ? BatchHandle.Null : batch.Handle;
        }

        /// <summary>Copies <paramref name="values"/>, whose length is rows times columns.</summary>
        /// <exception cref="ArgumentException">There are fewer or more values than that.</exception>
        public unsafe void Set(string name, ReadOnlySpan<int> values, long rows, long columns)
        {
            // The library reads rows × columns values: a product that wraps around must not pass for the length.
            if (rows <= 0 || columns <= 0 || values.Length % columns != 0 || values.Length / columns != rows)
                throw new ArgumentException("The number of values is not rows times columns.", "values");
            fixed (int* begin = &MemoryMarshal.GetReference(values))
            {
                Native.plait_batch_set(Handle, name, (IntPtr)begin, rows, columns);
            }
            Retire(name, rows, columns);
        }

        /// <summary>Removes a tensor.</summary>
        public void Remove(string name)
        {
            Native.plait_batch_set(Handle, name, IntPtr.Zero, 0, 0);
            Retire(name, 0, 0);
        }

        /// <summary>
        /// The batch's own memory for <paramref name="name"/>, to be filled in place. It keeps content and address
        /// until the shape changes or the batch is disposed of; map it once and fill it before each step.
        /// </summary>
        public unsafe BatchView Map(string name, long rows, long columns)
        {
            IntPtr values;
            Native.plait_batch_map(Handle, name, rows, columns, out values);
            Retire(name, rows, columns);
            BatchView view;
            if (!views.TryGetValue(name, out view))
                views[name] = view = new BatchView(this, (int*)values, rows, columns);
            return view;
        }

        // A view of another shape has lost its memory.
        private void Retire(string name, long rows, long columns)
        {
            BatchView view;
            if (!views.TryGetValue(name, out view) || view.Rows == rows && view.Columns == columns) return;
            view.Retire();
            views.Remove(name);
        }

        /// <summary>Frees the handle and with it the memory of all views. A second call does nothing.</summary>
        public void Dispose()
        {
            Handle.Dispose();
        }
    }

    /// <summary>
    /// Memory of a batch, to be filled in place. Its methods check where they write, and that the memory is still
    /// there; a Span or a pointer that was taken from it is good until the batch is disposed of or collected, or the
    /// tensor gets another shape, and nobody checks that.
    /// </summary>
    public sealed unsafe class BatchView
    {
        private readonly Batch owner;
        private readonly int* begin;
        private bool isRetired;

        internal BatchView(Batch owner, int* begin, long rows, long columns)
        {
            this.owner = owner;
            this.begin = begin;
            Rows = rows;
            Columns = columns;
        }

        /// <summary>Number of rows.</summary>
        public long Rows { get; private set; }

        /// <summary>Values of a row.</summary>
        public long Columns { get; private set; }

        /// <summary>One value.</summary>
        /// <exception cref="ObjectDisposedException">The batch was disposed of.</exception>
        /// <exception cref="InvalidOperationException">The tensor has another shape by now.</exception>
        public int this[long row, long column]
        {
            get
            {
                int value = *At(row, column);
                GC.KeepAlive(owner);
                return value;
            }
            set
            {
                *At(row, column) = value;
                GC.KeepAlive(owner);
            }
        }

        /// <summary>Address of the first value, a multiple of 64.</summary>
        public IntPtr Pointer
        {
            get { return (IntPtr)At(0, 0); }
        }

        /// <summary>All values, row after row. For more than 2^31 - 1 of them go by <see cref="Row"/>.</summary>
        public Span<int> Values
        {
            get { return new Span<int>(At(0, 0), checked((int)(Rows * Columns))); }
        }

        /// <summary>The values of one row.</summary>
        public Span<int> Row(long row)
        {
            return new Span<int>(At(row, 0), checked((int)Columns));
        }

        /// <summary>Copies as many values as <paramref name="values"/> has into the beginning of a row.</summary>
        public void CopyFrom(long row, ReadOnlySpan<int> values)
        {
            values.CopyTo(Row(row));
            GC.KeepAlive(owner);
        }

        internal void Retire()
        {
            isRetired = true;
        }

        private int* At(long row, long column)
        {
            if (owner.Handle.IsClosed) throw new ObjectDisposedException("Batch");
            if (isRetired) throw new InvalidOperationException("The tensor has another shape by now.");
            if (row < 0 || row >= Rows) throw new ArgumentOutOfRangeException("row");
            if (column < 0 || column >= Columns) throw new ArgumentOutOfRangeException("column");
            return begin + row * Columns + column;
        }
    }
}
