using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// A model in training, on all ranks of this process. Where a group spans processes, all make the same calls in
    /// the same order. One call at a time, but for <see cref="State"/>, <see cref="Counter"/>,
    /// <see cref="Report"/>, <see cref="RequestStop"/>, <see cref="Abort"/> and <see cref="Dispose"/>, which any
    /// thread may call at any time. A call that overlaps another is FailedPrecondition/busy.
    /// </summary>
    /// <remarks>
    /// A time-out in milliseconds limits one call; Timeout.Infinite sets no limit beside the configured ones, which
    /// hold in any case. A collective call that runs into it loses the engine.
    /// </remarks>
    public sealed class Engine : IDisposable
    {
        /// <summary>
        /// Builds model, optimizer state and all working memory, and draws the weights from the seed. The
        /// configuration is copied, and compared across processes.
        /// </summary>
        public Engine(Group group, Config config, int millisecondsTimeout = Timeout.Infinite)
        {
            EngineHandle handle;
            Native.plait_engine_create(Arguments.Required(group, "group").Handle,
                Arguments.Required(config, "config").Handle, millisecondsTimeout, out handle);
            Handle = handle;
        }

        internal EngineHandle Handle { get; private set; }

        /// <summary>What the engine is doing.</summary>
        public EngineState State
        {
            get { return (EngineState)Native.plait_engine_state(Handle); }
        }

        /// <summary>Rows, lengths and needs of the next step's batch.</summary>
        public BatchSpec BatchSpec()
        {
            using (var spec = new plait_batch_spec())
            {
                Native.plait_engine_batch_spec(Handle, spec);
                return new BatchSpec(spec);
            }
        }

        /// <summary>
        /// The rows of a global batch of <paramref name="globalRows"/> that this process supplies in a local batch:
        /// run <paramref name="index"/> of <see cref="Plait.BatchSpec.SpanCount"/>.
        /// </summary>
        public RowSpan BatchSpan(long globalRows, long index)
        {
            long first, count;
            Native.plait_engine_batch_span(Handle, globalRows, index, out first, out count);
            return new RowSpan(first, count);
        }

        /// <summary>
        /// One whole optimizer step. Without a batch it draws the next one of the attached "train" dataset. A batch
        /// whose targets are all -1 is no error: loss 0, skipped. With <see cref="Metrics.IsStopped"/> the step was
        /// done and a stop that was asked for is due.
        /// </summary>
        public Metrics Step(Batch batch = null, int millisecondsTimeout = Timeout.Infinite)
        {
            using (var metrics = new plait_metrics())
            {
                int code = Native.plait_engine_step(Handle, Batch.Optional(batch), millisecondsTimeout, metrics);
                return new Metrics(metrics, code == Native.PLAIT_STOPPED);
            }
        }

        /// <summary>
        /// Adds the gradients of a batch to those since the last update. Any cut of a batch into such calls equals
        /// one step on the whole.
        /// </summary>
        public Metrics ForwardBackward(Batch batch, int millisecondsTimeout = Timeout.Infinite)
        {
            using (var metrics = new plait_metrics())
            {
                int code = Native.plait_engine_forward_backward(Handle, Batch.Optional(batch), millisecondsTimeout,
                    metrics);
                return new Metrics(metrics, code == Native.PLAIT_STOPPED);
            }
        }

        /// <summary>
        /// Divides the gradients by the targets since the last update, clips, updates the weights, clears.
        /// </summary>
        public Metrics OptimizerStep(int millisecondsTimeout = Timeout.Infinite)
        {
            using (var metrics = new plait_metrics())
            {
                int code = Native.plait_engine_optimizer_step(Handle, millisecondsTimeout, metrics);
                return new Metrics(metrics, code == Native.PLAIT_STOPPED);
            }
        }

        /// <summary>
        /// Loss alone, without dropout; the state stays as it is. Without a batch it runs evaluate.batches batches of
        /// the attached "evaluate" dataset from its start. Null when a stop ended it.
        /// </summary>
        public Metrics Evaluate(Batch batch = null, int millisecondsTimeout = Timeout.Infinite)
        {
            using (var metrics = new plait_metrics())
            {
                int code = Native.plait_engine_evaluate(Handle, Batch.Optional(batch), millisecondsTimeout, metrics);
                return code == Native.PLAIT_STOPPED ? null : new Metrics(metrics, false);
            }
        }

        /// <summary>
        /// Negative log-likelihood of each target, 0 where it is ignored, into <paramref name="losses"/>, which has
        /// exactly rows times sequence length places. False when a stop ended it.
        /// </summary>
        public unsafe bool Score(Batch batch, Span<float> losses, int millisecondsTimeout = Timeout.Infinite)
        {
            fixed (float* begin = &MemoryMarshal.GetReference(losses))
            {
                return Native.plait_engine_score(Handle, Batch.Optional(batch), millisecondsTimeout, (IntPtr)begin,
                    losses.Length * (long)sizeof(float)) == Native.PLAIT_OK;
            }
        }

        /// <summary>
        /// Continues <paramref name="prompt"/> (at least one id) with the current weights and keys generate.*: at
        /// most <paramref name="maxTokens"/> new ids. Null when a stop ended it.
        /// </summary>
        public unsafe int[] Generate(ReadOnlySpan<int> prompt, long maxTokens,
            int millisecondsTimeout = Timeout.Infinite)
        {
            int[] tokens;
            fixed (int* begin = &MemoryMarshal.GetReference(prompt))
            {
                Native.plait_engine_generate(Handle, (IntPtr)begin, prompt.Length, maxTokens, millisecondsTimeout,
                    out tokens);
            }
            return tokens;
        }

        /// <summary>
        /// Makes a dataset the source of steps without a batch (role "train") or of evaluations ("evaluate"); null
        /// detaches. The engine keeps a reference.
        /// </summary>
        public void AttachDataset(string role, Dataset dataset, int millisecondsTimeout = Timeout.Infinite)
        {
            Native.plait_engine_attach_dataset(Handle, role, dataset == null ? DatasetHandle.Null : dataset.Handle,
                millisecondsTimeout);
        }

        /// <summary>
        /// Sets a key that is mutable at run time, null: to its default; takes effect when the next step, save or
        /// load opens. Make the same call in every process.
        /// </summary>
        public void Set(string key, string value)
        {
            Native.plait_engine_set(Handle, key, value);
        }

        /// <summary>Sets a named number that goes into checkpoints. Names are [a-z0-9_.-]{1,128}.</summary>
        public void SetProperty(string name, long value)
        {
            Native.plait_engine_set_property(Handle, name, (int)PropertyType.Integer, value, 0, null);
        }

        /// <summary>As <see cref="SetProperty(string, long)"/>, for a real number.</summary>
        public void SetProperty(string name, double value)
        {
            Native.plait_engine_set_property(Handle, name, (int)PropertyType.Real, 0, value, null);
        }

        /// <summary>As <see cref="SetProperty(string, long)"/>, for a text of at most 64 KiB of UTF-8.</summary>
        public void SetProperty(string name, string value)
        {
            Native.plait_engine_set_property(Handle, name, (int)PropertyType.Text, 0, 0, value);
        }

        /// <summary>Value of a counter of report "counters". Answers also after the engine is lost.</summary>
        public double Counter(string name)
        {
            double value;
            Native.plait_engine_counter(Handle, name, out value);
            return value;
        }

        /// <summary>
        /// JSON about "config", "ranks", "kernels", "memory", "schedule", "counters", "properties", "operations" or
        /// "trace". Answers also after the engine is lost.
        /// </summary>
        public string Report(string kind)
        {
            string report;
            Native.plait_engine_report(Handle, kind, out report);
            return report;
        }

        /// <summary>All logical tensors and kinds, in name and kind order; the same list in every process.</summary>
        public IEnumerable<EntryInfo> Tensors
        {
            get
            {
                long count = Native.plait_engine_tensor_count(Handle);
                using (var info = new plait_entry_info())
                {
                    for (long index = 0; index < count; ++index)
                    {
                        Native.plait_engine_tensor_at(Handle, index, info);
                        yield return new EntryInfo(info);
                    }
                }
            }
        }

        /// <summary>Copies a whole tensor, converted to float32, row-major; the length must fit exactly.</summary>
        public void ReadTensor(string name, TensorKind kind, Span<float> values,
            int millisecondsTimeout = Timeout.Infinite)
        {
            ReadTensor(name, kind, ElementType.Float32, MemoryMarshal.AsBytes(values), millisecondsTimeout);
        }

        /// <summary>
        /// Copies a whole tensor, converted to <paramref name="type"/>, row-major; the length must fit exactly.
        /// </summary>
        public unsafe void ReadTensor(string name, TensorKind kind, ElementType type, Span<byte> data,
            int millisecondsTimeout = Timeout.Infinite)
        {
            fixed (byte* begin = &MemoryMarshal.GetReference(data))
            {
                ReadTensor(name, kind, type, (IntPtr)begin, data.Length, millisecondsTimeout);
            }
        }

        /// <summary>
        /// As above, for memory of any size and alignment. An address of 0 only takes part, where another process
        /// wants the tensor.
        /// </summary>
        public void ReadTensor(string name, TensorKind kind, ElementType type, IntPtr data, long bytes,
            int millisecondsTimeout = Timeout.Infinite)
        {
            Native.plait_engine_tensor_read(Handle, name, (int)kind, (int)type, millisecondsTimeout, data, bytes);
        }

        /// <summary>
        /// Replaces a whole tensor by float32 values. Those of the process of rank 0 count. Parameter and Master stay
        /// consistent with each other.
        /// </summary>
        public void WriteTensor(string name, TensorKind kind, ReadOnlySpan<float> values,
            int millisecondsTimeout = Timeout.Infinite)
        {
            WriteTensor(name, kind, ElementType.Float32, MemoryMarshal.AsBytes(values), millisecondsTimeout);
        }

        /// <summary>As above, from values of <paramref name="type"/>.</summary>
        public unsafe void WriteTensor(string name, TensorKind kind, ElementType type, ReadOnlySpan<byte> data,
            int millisecondsTimeout = Timeout.Infinite)
        {
            fixed (byte* begin = &MemoryMarshal.GetReference(data))
            {
                WriteTensor(name, kind, type, (IntPtr)begin, data.Length, millisecondsTimeout);
            }
        }

        /// <summary>As above, from memory of any size and alignment.</summary>
        public void WriteTensor(string name, TensorKind kind, ElementType type, IntPtr data, long bytes,
            int millisecondsTimeout = Timeout.Infinite)
        {
            Native.plait_engine_tensor_write(Handle, name, (int)kind, (int)type, data, bytes, millisecondsTimeout);
        }

        /// <summary>
        /// Takes a snapshot and writes it as a new step of <paramref name="root"/>; returns after the snapshot. The
        /// operation ends when the step is durable.
        /// </summary>
        public Operation Save(string root, int millisecondsTimeout = Timeout.Infinite)
        {
            OperationHandle operation;
            Native.plait_checkpoint_save(Handle, root, millisecondsTimeout, out operation);
            return new Operation(operation);
        }

        /// <summary>
        /// Loads state, whatever layout saved it. The JSON report names the step that was taken, and newer ones that
        /// were skipped, with the reason. Null when a stop ended it.
        /// </summary>
        public string Load(string path, int millisecondsTimeout = Timeout.Infinite)
        {
            string report;
            Native.plait_checkpoint_load(Handle, path, millisecondsTimeout, out report);
            return report;
        }

        /// <summary>
        /// Asks for an orderly stop. The next step finishes in all processes and says
        /// <see cref="Metrics.IsStopped"/>; evaluate, score, generate and load end without effect.
        /// </summary>
        public void RequestStop()
        {
            Native.plait_engine_request_stop(Handle);
        }

        /// <summary>Ends at once: calls that run throw Aborted within a second, and the engine is lost.</summary>
        public void Abort()
        {
            Native.plait_engine_abort(Handle);
        }

        /// <summary>Orderly end: saves finish or are given up by the deadline, peers see no loss.</summary>
        public void Close(int millisecondsTimeout = Timeout.Infinite)
        {
            Native.plait_engine_close(Handle, millisecondsTimeout);
        }

        /// <summary>
        /// Frees the handle. A call that runs is aborted; where processes work together, <see cref="Close"/> first.
        /// A second call does nothing.
        /// </summary>
        public void Dispose()
        {
            try
            {
                if (!Handle.IsClosed && State == EngineState.Running) Abort();
            }
            catch (ObjectDisposedException)
            {
                // Another thread was faster.
            }
            Handle.Dispose();
        }
    }
}
