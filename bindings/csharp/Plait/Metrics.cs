using Plait.Interop;

namespace Plait
{
    /// <summary>
    /// What one call on the engine measured. Counts are of the whole group, seconds are wall time. It does not
    /// change.
    /// </summary>
    public sealed class Metrics
    {
        internal Metrics(plait_metrics from, bool isStopped)
        {
            IsStopped = isStopped;
            Valid = (MetricsParts)from.valid;
            Step = from.step;
            SamplesTotal = from.samples_total;
            TokensTotal = from.tokens_total;
            SkippedTotal = from.skipped_total;
            Tokens = from.tokens;
            Targets = from.targets;
            IsSkipped = from.skipped != 0;
            Loss = from.loss;
            GradNorm = from.grad_norm;
            LearningRate = from.lr;
            LossScale = from.loss_scale;
            StepSeconds = from.step_seconds;
            TokensPerSecond = from.tokens_per_second;
            ModelFlopsPerSecond = from.model_flops_per_second;
            ForwardSeconds = from.forward_seconds;
            BackwardSeconds = from.backward_seconds;
            CommunicationSeconds = from.communication_seconds;
            OptimizerSeconds = from.optimizer_seconds;
            BubbleSeconds = from.bubble_seconds;
            DataSeconds = from.data_seconds;
            MemoryBytes = from.memory_bytes;
            MemoryPeakBytes = from.memory_peak_bytes;
            DivergedRank = from.diverged_rank;
        }

        /// <summary>True when the call was the one that an asked-for stop takes effect after: save and leave.</summary>
        public bool IsStopped { get; private set; }

        /// <summary>Which groups of numbers were filled; the others are 0.</summary>
        public MetricsParts Valid { get; private set; }

        /// <summary>Number of the step; the first is 1.</summary>
        public long Step { get; private set; }

        /// <summary>Sequences since the run began.</summary>
        public long SamplesTotal { get; private set; }

        /// <summary>Tokens since the run began.</summary>
        public long TokensTotal { get; private set; }

        /// <summary>Steps since the run began whose update was not applied.</summary>
        public long SkippedTotal { get; private set; }

        /// <summary>Tokens since the last update, this call's included.</summary>
        public long Tokens { get; private set; }

        /// <summary>Those of them that are unmasked targets.</summary>
        public long Targets { get; private set; }

        /// <summary>True when the update was not applied.</summary>
        public bool IsSkipped { get; private set; }

        /// <summary>Mean negative log-likelihood of a target, in nats.</summary>
        public double Loss { get; private set; }

        /// <summary>Norm of the gradients before clipping.</summary>
        public double GradNorm { get; private set; }

        /// <summary>Learning rate of this step.</summary>
        public double LearningRate { get; private set; }

        /// <summary>Loss scale of this step.</summary>
        public double LossScale { get; private set; }

        /// <summary>Time of the call.</summary>
        public double StepSeconds { get; private set; }

        /// <summary>Tokens a second.</summary>
        public double TokensPerSecond { get; private set; }

        /// <summary>The model's floating-point operations a second.</summary>
        public double ModelFlopsPerSecond { get; private set; }

        /// <summary>Time in forward passes; this and the next five are means over this process's ranks.</summary>
        public double ForwardSeconds { get; private set; }

        /// <summary>Time in backward passes.</summary>
        public double BackwardSeconds { get; private set; }

        /// <summary>Time in communication that was not hidden behind computing.</summary>
        public double CommunicationSeconds { get; private set; }

        /// <summary>Time in the update of the weights.</summary>
        public double OptimizerSeconds { get; private set; }

        /// <summary>Time in which a rank waited for another stage.</summary>
        public double BubbleSeconds { get; private set; }

        /// <summary>Time in which data was read.</summary>
        public double DataSeconds { get; private set; }

        /// <summary>Memory of the largest of this process's ranks.</summary>
        public long MemoryBytes { get; private set; }

        /// <summary>The most that it was.</summary>
        public long MemoryPeakBytes { get; private set; }

        /// <summary>The rank whose copy differs from the others', -1 for none.</summary>
        public long DivergedRank { get; private set; }
    }

    /// <summary>What the next step wants to be fed.</summary>
    public sealed class BatchSpec
    {
        internal BatchSpec(plait_batch_spec from)
        {
            GlobalRows = from.global_rows;
            LocalRows = from.local_rows;
            SpanCount = from.span_count;
            SequenceLength = from.sequence_length;
            VocabSize = from.vocab_size;
            FirstSample = from.first_sample;
            Needs = (Needs)from.needs;
        }

        /// <summary>Rows of a global batch.</summary>
        public long GlobalRows { get; private set; }

        /// <summary>Rows of this process's local batch.</summary>
        public long LocalRows { get; private set; }

        /// <summary>Number of runs of rows in it, see <see cref="Engine.BatchSpan"/>.</summary>
        public long SpanCount { get; private set; }

        /// <summary>Targets of a row; "tokens" without "targets" has one column more.</summary>
        public long SequenceLength { get; private set; }

        /// <summary>Ids go from 0 to this number - 1.</summary>
        public long VocabSize { get; private set; }

        /// <summary>Sample index of global row 0.</summary>
        public long FirstSample { get; private set; }

        /// <summary>What this process must supply.</summary>
        public Needs Needs { get; private set; }
    }

    /// <summary>A run of rows of a global batch.</summary>
    public struct RowSpan
    {
        internal RowSpan(long first, long count)
        {
            First = first;
            Count = count;
        }

        /// <summary>Its first global row.</summary>
        public long First { get; private set; }

        /// <summary>Number of its rows.</summary>
        public long Count { get; private set; }
    }
}
