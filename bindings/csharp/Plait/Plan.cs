using System;
using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// Candidates for running a configuration on a number of ranks, best first and rejected ones last. Needs no
    /// device. Any thread may call.
    /// </summary>
    public sealed class Plan : IDisposable
    {
        private readonly PlanHandle handle;

        /// <summary>With fixed layout.* degrees there is one candidate, with "auto" there are all.</summary>
        public Plan(Context context, Config config, int world)
        {
            Native.plait_plan_create(Arguments.Required(context, "context").Handle,
                Arguments.Required(config, "config").Handle, world, out handle);
        }

        /// <summary>Number of candidates.</summary>
        public long Count
        {
            get { return Native.plait_plan_count(handle); }
        }

        /// <summary>Describes candidate <paramref name="index"/>.</summary>
        public PlanInfo this[long index]
        {
            get
            {
                using (var info = new plait_plan_info())
                {
                    Native.plait_plan_at(handle, index, info);
                    return new PlanInfo(info);
                }
            }
        }

        /// <summary>
        /// Describes what <paramref name="rank"/> holds and does in candidate <paramref name="index"/>.
        /// </summary>
        public RankInfo RankAt(long index, int rank)
        {
            using (var info = new plait_rank_info())
            {
                Native.plait_plan_rank_at(handle, index, rank, info);
                return new RankInfo(info);
            }
        }

        /// <summary>
        /// Text about candidate <paramref name="index"/>: "reasons", "estimate", "memory", "schedule" (text form)
        /// or "timeline" (Chrome trace).
        /// </summary>
        public string Report(long index, string kind)
        {
            string report;
            Native.plait_plan_report(handle, index, kind, out report);
            return report;
        }

        /// <summary>
        /// Writes the layout.* keys of candidate <paramref name="index"/> into <paramref name="config"/>.
        /// </summary>
        public void Apply(long index, Config config)
        {
            Native.plait_plan_apply(handle, index, Arguments.Required(config, "config").Handle);
        }

        /// <summary>Frees the handle. A second call does nothing.</summary>
        public void Dispose()
        {
            handle.Dispose();
        }
    }

    /// <summary>One candidate of a plan.</summary>
    public sealed class PlanInfo
    {
        internal PlanInfo(plait_plan_info info)
        {
            IsFeasible = info.is_feasible != 0;
            Tensor = info.tensor;
            Pipeline = info.pipeline;
            Data = info.data;
            Interleave = info.interleave;
            Zero = info.zero;
            MicroBatch = info.micro_batch;
            MemoryBytes = info.memory_bytes;
            MemoryLimitBytes = info.memory_limit_bytes;
            StepSeconds = info.step_seconds;
            TokensPerSecond = info.tokens_per_second;
            BubbleShare = info.bubble_share;
            ModelFlopsShare = info.model_flops_share;
            Reason = info.reason;
        }

        /// <summary>False where it was rejected; <see cref="Reason"/> says why.</summary>
        public bool IsFeasible { get; private set; }

        /// <summary>Tensor degree.</summary>
        public long Tensor { get; private set; }

        /// <summary>Pipeline degree.</summary>
        public long Pipeline { get; private set; }

        /// <summary>Data degree.</summary>
        public long Data { get; private set; }

        /// <summary>Chunks of layers in each pipeline stage.</summary>
        public long Interleave { get; private set; }

        /// <summary>What is sharded over the data axis, 0 to 3.</summary>
        public long Zero { get; private set; }

        /// <summary>Sequences of a micro-batch.</summary>
        public long MicroBatch { get; private set; }

        /// <summary>What the largest rank holds.</summary>
        public long MemoryBytes { get; private set; }

        /// <summary>What a rank may hold.</summary>
        public long MemoryLimitBytes { get; private set; }

        /// <summary>Time of a step.</summary>
        public double StepSeconds { get; private set; }

        /// <summary>Tokens a second, of the whole group.</summary>
        public double TokensPerSecond { get; private set; }

        /// <summary>Share of the step in which ranks wait for others.</summary>
        public double BubbleShare { get; private set; }

        /// <summary>The model's operations a second, as a share of the devices' peak.</summary>
        public double ModelFlopsShare { get; private set; }

        /// <summary>Why it was rejected, "" when it was not.</summary>
        public string Reason { get; private set; }
    }

    /// <summary>One rank of a candidate: its coordinates and what it holds and does.</summary>
    public sealed class RankInfo
    {
        internal RankInfo(plait_rank_info info)
        {
            Tensor = info.tensor;
            Pipeline = info.pipeline;
            Data = info.data;
            WeightBytes = info.weight_bytes;
            GradientBytes = info.gradient_bytes;
            OptimizerBytes = info.optimizer_bytes;
            ActivationBytes = info.activation_bytes;
            CommunicationBytes = info.communication_bytes;
            WorkspaceBytes = info.workspace_bytes;
            ComputeSeconds = info.compute_seconds;
            CommunicationSeconds = info.communication_seconds;
            BubbleShare = info.bubble_share;
        }

        /// <summary>Coordinate on the tensor axis.</summary>
        public long Tensor { get; private set; }

        /// <summary>Coordinate on the pipeline axis.</summary>
        public long Pipeline { get; private set; }

        /// <summary>Coordinate on the data axis.</summary>
        public long Data { get; private set; }

        /// <summary>Memory of weights.</summary>
        public long WeightBytes { get; private set; }

        /// <summary>Memory of gradients.</summary>
        public long GradientBytes { get; private set; }

        /// <summary>Memory of the optimizer's state.</summary>
        public long OptimizerBytes { get; private set; }

        /// <summary>Memory of what the backward pass needs.</summary>
        public long ActivationBytes { get; private set; }

        /// <summary>Memory of what is sent and received.</summary>
        public long CommunicationBytes { get; private set; }

        /// <summary>Scratch memory.</summary>
        public long WorkspaceBytes { get; private set; }

        /// <summary>Time of a step spent computing.</summary>
        public double ComputeSeconds { get; private set; }

        /// <summary>Time of a step spent communicating.</summary>
        public double CommunicationSeconds { get; private set; }

        /// <summary>Share of the step in which this rank waits for others.</summary>
        public double BubbleShare { get; private set; }
    }
}
