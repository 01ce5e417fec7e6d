package plait

// #include <plait/plait.h>
import "C"

// Metrics is what one call of an engine measured. Counts are of the whole group, seconds are wall time.
type Metrics struct {
	HasStep     bool // Step … LossScale are filled; they are equal in every process
	HasTime     bool // StepSeconds … DataSeconds are filled
	HasMemory   bool // MemoryBytes and MemoryPeakBytes are filled
	HasReplicas bool // DivergedRank is filled: this step has compared the replicas

	Step                                    int64 // the first is 1
	SamplesTotal, TokensTotal, SkippedTotal int64
	Tokens, Targets                         int64   // since the last update, this call's included; targets are the unmasked ones
	Skipped                                 bool    // the update was not applied
	Loss                                    float64 // mean negative log-likelihood per target, in nats
	GradNorm                                float64 // before clipping
	LR                                      float64 // used in this step
	LossScale                               float64

	StepSeconds, TokensPerSecond, ModelFlopsPerSecond float64
	ForwardSeconds, BackwardSeconds                   float64 // these and the next four: mean over local ranks
	CommunicationSeconds                              float64 // not hidden behind compute
	OptimizerSeconds, BubbleSeconds, DataSeconds      float64

	MemoryBytes, MemoryPeakBytes int64 // of the largest local rank
	DivergedRank                 int64 // -1: none
}

func metricsOf(m *C.plait_metrics) Metrics {
	has := func(bit C.int64_t) bool { return m.valid&bit != 0 }
	return Metrics{
		HasStep: has(C.PLAIT_METRICS_STEP), HasTime: has(C.PLAIT_METRICS_TIME),
		HasMemory: has(C.PLAIT_METRICS_MEMORY), HasReplicas: has(C.PLAIT_METRICS_REPLICAS),
		Step:         int64(m.step),
		SamplesTotal: int64(m.samples_total), TokensTotal: int64(m.tokens_total),
		SkippedTotal: int64(m.skipped_total),
		Tokens:       int64(m.tokens), Targets: int64(m.targets), Skipped: m.skipped != 0,
		Loss: float64(m.loss), GradNorm: float64(m.grad_norm), LR: float64(m.lr), LossScale: float64(m.loss_scale),
		StepSeconds: float64(m.step_seconds), TokensPerSecond: float64(m.tokens_per_second),
		ModelFlopsPerSecond: float64(m.model_flops_per_second),
		ForwardSeconds:      float64(m.forward_seconds), BackwardSeconds: float64(m.backward_seconds),
		CommunicationSeconds: float64(m.communication_seconds),
		OptimizerSeconds:     float64(m.optimizer_seconds), BubbleSeconds: float64(m.bubble_seconds),
		DataSeconds: float64(m.data_seconds),
		MemoryBytes: int64(m.memory_bytes), MemoryPeakBytes: int64(m.memory_peak_bytes),
		DivergedRank: int64(m.diverged_rank),
	}
}
