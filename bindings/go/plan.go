package plait

// #include <plait/plait.h>
import "C"

import "unsafe"

// Plan holds the layouts that the planner found for a number of ranks, best first and rejected ones last. Any
// goroutine may read it at any time.
type Plan struct{ handle }

// NewPlan plans for world ranks: with fixed layout.* degrees one candidate, with "auto" all. It needs no device.
func (c *Context) NewPlan(config *Config, world int) (*Plan, error) {
	ranks, err := narrow("world", world)
	if err != nil {
		return nil, err
	}
	var made *C.plait_plan
	err = c.callWith(config.ref(), func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_plan_create((*C.plait_context)(p), (*C.plait_config)(q), ranks, &made, fail)
	})
	if err != nil {
		return nil, err
	}
	plan := &Plan{}
	plan.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_plan_free((*C.plait_plan)(p)) }, nil)
	return plan, nil
}

// PlanInfo describes a candidate.
type PlanInfo struct {
	IsFeasible                                           bool
	Tensor, Pipeline, Data, Interleave, Zero, MicroBatch int64
	MemoryBytes, MemoryLimitBytes                        int64 // of the largest rank
	StepSeconds, TokensPerSecond                         float64
	BubbleShare                                          float64 // of the step
	ModelFlopsShare                                      float64 // of the peak
	Reason                                               string  // why it was rejected, "" when it was not
}

// RankInfo says where a rank of a candidate stands, what it holds and what it does.
type RankInfo struct {
	Tensor, Pipeline, Data                              int64
	WeightBytes, GradientBytes, OptimizerBytes          int64
	ActivationBytes, CommunicationBytes, WorkspaceBytes int64
	ComputeSeconds, CommunicationSeconds, BubbleShare   float64
}

// Count is the number of candidates, 0 when the plan is closed.
func (p *Plan) Count() int {
	count := 0
	_ = p.call(func(p unsafe.Pointer, _ **C.plait_error) C.int32_t {
		count = int(C.plait_plan_count((*C.plait_plan)(p)))
		return C.PLAIT_OK
	})
	return count
}

// At describes candidate index.
func (p *Plan) At(index int) (PlanInfo, error) {
	var to PlanInfo
	err := p.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		var info C.plait_plan_info
		info.struct_size = C.int64_t(unsafe.Sizeof(info))
		code := C.plait_plan_at((*C.plait_plan)(p), C.int64_t(index), &info, fail)
		to = PlanInfo{
			IsFeasible: info.is_feasible != 0,
			Tensor:     int64(info.tensor), Pipeline: int64(info.pipeline), Data: int64(info.data),
			Interleave: int64(info.interleave), Zero: int64(info.zero), MicroBatch: int64(info.micro_batch),
			MemoryBytes: int64(info.memory_bytes), MemoryLimitBytes: int64(info.memory_limit_bytes),
			StepSeconds: float64(info.step_seconds), TokensPerSecond: float64(info.tokens_per_second),
			BubbleShare: float64(info.bubble_share), ModelFlopsShare: float64(info.model_flops_share),
			Reason: C.GoString(info.reason),
		}
		return code
	})
	return to, err
}

// RankAt describes what rank (0 … world - 1) holds and does in candidate index.
func (p *Plan) RankAt(index, rank int) (RankInfo, error) {
	var to RankInfo
	number, err := narrow("rank", rank)
	if err != nil {
		return to, err
	}
	err = p.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		var info C.plait_rank_info
		info.struct_size = C.int64_t(unsafe.Sizeof(info))
		code := C.plait_plan_rank_at((*C.plait_plan)(p), C.int64_t(index), number, &info, fail)
		to = RankInfo{
			Tensor: int64(info.tensor), Pipeline: int64(info.pipeline), Data: int64(info.data),
			WeightBytes: int64(info.weight_bytes), GradientBytes: int64(info.gradient_bytes),
			OptimizerBytes: int64(info.optimizer_bytes), ActivationBytes: int64(info.activation_bytes),
			CommunicationBytes: int64(info.communication_bytes), WorkspaceBytes: int64(info.workspace_bytes),
			ComputeSeconds:       float64(info.compute_seconds),
			CommunicationSeconds: float64(info.communication_seconds),
			BubbleShare:          float64(info.bubble_share),
		}
		return code
	})
	return to, err
}

// Report is text about candidate index: "reasons", "estimate", "memory", "schedule" or "timeline" (a Chrome trace).
func (p *Plan) Report(index int, kind string) ([]byte, error) {
	name, err := text(kind)
	if err != nil {
		return nil, err
	}
	return p.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_plan_report((*C.plait_plan)(p), C.int64_t(index), name, out, fail)
	})
}

// Apply writes the layout.* keys of candidate index into config.
func (p *Plan) Apply(index int, config *Config) error {
	return p.callWith(config.ref(), func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_plan_apply((*C.plait_plan)(p), C.int64_t(index), (*C.plait_config)(q), fail)
	})
}
