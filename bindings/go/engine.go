package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"sync/atomic"
	"time"
	"unsafe"
)

// Engine holds model, optimizer state and working memory of all local ranks, and trains them. One goroutine at a
// time; State, Counter, Report, Tensors, SetStopGrace, RequestStop, Abort and Close at any time. All processes of the
// group make the same calls in the same order.
type Engine struct {
	handle
	grace atomic.Int64 // time.Duration
}

// NewEngine builds an engine and draws the weights from the seed. A group has one engine at a time: before it gets
// another, close the first one and its batches.
func (g *Group) NewEngine(ctx context.Context, config *Config) (*Engine, error) {
	var made *C.plait_engine
	err := g.limited(ctx, config.ref(), func(p, q unsafe.Pointer, ms C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_engine_create((*C.plait_group)(p), (*C.plait_config)(q), ms, &made, fail)
	})
	if err != nil {
		return nil, err
	}
	engine := &Engine{}
	engine.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_engine_free((*C.plait_engine)(p)) },
		func(p unsafe.Pointer) { C.plait_engine_abort((*C.plait_engine)(p)) })
	return engine, nil
}

// EngineState is the state of an engine.
type EngineState int32

// States of an engine.
const (
	StateReady   EngineState = C.PLAIT_ENGINE_READY
	StateRunning EngineState = C.PLAIT_ENGINE_RUNNING // a call is in progress
	StateLost    EngineState = C.PLAIT_ENGINE_LOST    // after an error with EngineLost
	StateClosed  EngineState = C.PLAIT_ENGINE_CLOSED  // after Shutdown
)

// State is the state of the engine, StateClosed after Close too.
func (e *Engine) State() EngineState {
	p, err := e.enter()
	if err != nil {
		return StateClosed
	}
	defer e.leave()
	return EngineState(C.plait_engine_state((*C.plait_engine)(p)))
}

// BatchSpec is what the next step wants to be fed.
type BatchSpec struct {
	GlobalRows, LocalRows int64
	SpanCount             int64
	SequenceLength        int64
	VocabSize             int64
	FirstSample           int64 // sample index of global row 0
	NeedsTokens           bool  // this process must supply them; so it is with the next two, where they are used
	NeedsTargets          bool
	NeedsDocuments        bool
}

// BatchSpec says what the next step wants.
func (e *Engine) BatchSpec() (BatchSpec, error) {
	var spec C.plait_batch_spec
	spec.struct_size = C.int64_t(unsafe.Sizeof(spec))
	err := e.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_batch_spec((*C.plait_engine)(p), &spec, fail)
	})
	if err != nil {
		return BatchSpec{}, err
	}
	return BatchSpec{
		GlobalRows: int64(spec.global_rows), LocalRows: int64(spec.local_rows), SpanCount: int64(spec.span_count),
		SequenceLength: int64(spec.sequence_length), VocabSize: int64(spec.vocab_size),
		FirstSample:    int64(spec.first_sample),
		NeedsTokens:    spec.needs&C.PLAIT_NEEDS_TOKENS != 0,
		NeedsTargets:   spec.needs&C.PLAIT_NEEDS_TARGETS != 0,
		NeedsDocuments: spec.needs&C.PLAIT_NEEDS_DOCUMENTS != 0,
	}, nil
}

// Span is a run of rows of a global batch.
type Span struct{ First, Count int64 }

// BatchSpan is run index (0 … SpanCount - 1) of the rows that this process supplies in a Local batch, in a global
// batch of globalRows.
func (e *Engine) BatchSpan(globalRows int64, index int) (Span, error) {
	var start, count C.int64_t
	err := e.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_batch_span((*C.plait_engine)(p), C.int64_t(globalRows), C.int64_t(index), &start, &count,
			fail)
	})
	return Span{First: int64(start), Count: int64(count)}, err
}

// Step does one whole optimizer step; a nil batch draws the next one of the attached "train" dataset. An error that
// matches Stopped comes with valid metrics: the step was done and a stop is due.
func (e *Engine) Step(ctx context.Context, batch *Batch) (Metrics, error) {
	return e.measured(ctx, batch, func(p, q unsafe.Pointer, m *C.plait_metrics, fail **C.plait_error) C.int32_t {
		return C.plait_engine_step((*C.plait_engine)(p), (*C.plait_batch)(q), noLimit, m, fail)
	})
}

// ForwardBackward adds the gradients of a batch to those since the last update. Any cut of a batch into such calls
// equals one step on the whole.
func (e *Engine) ForwardBackward(ctx context.Context, batch *Batch) (Metrics, error) {
	return e.measured(ctx, batch, func(p, q unsafe.Pointer, m *C.plait_metrics, fail **C.plait_error) C.int32_t {
		return C.plait_engine_forward_backward((*C.plait_engine)(p), (*C.plait_batch)(q), noLimit, m, fail)
	})
}

// OptimizerStep divides the gradients by the targets since the last update, clips, updates the weights and clears.
func (e *Engine) OptimizerStep(ctx context.Context) (Metrics, error) {
	return e.measured(ctx, nil, func(p, _ unsafe.Pointer, m *C.plait_metrics, fail **C.plait_error) C.int32_t {
		return C.plait_engine_optimizer_step((*C.plait_engine)(p), noLimit, m, fail)
	})
}

// Evaluate measures the loss alone, without dropout; the state stays as it is. A nil batch runs evaluate.batches
// batches of the attached "evaluate" dataset from its start.
func (e *Engine) Evaluate(ctx context.Context, batch *Batch) (Metrics, error) {
	return e.measured(ctx, batch, func(p, q unsafe.Pointer, m *C.plait_metrics, fail **C.plait_error) C.int32_t {
		return C.plait_engine_evaluate((*C.plait_engine)(p), (*C.plait_batch)(q), noLimit, m, fail)
	})
}

// Score fills losses, of rows × sequence length, with the negative log-likelihood of each target, 0 where the target
// is ignored.
func (e *Engine) Score(ctx context.Context, batch *Batch, losses []float32) error {
	return e.stoppable(ctx, batch.ref(), func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_score((*C.plait_engine)(p), (*C.plait_batch)(q), noLimit,
			unsafe.Pointer(&some(raw(losses))[0]), C.int64_t(4*len(losses)), fail)
	})
}

// Generate continues prompt (at least one id) with the current weights and keys generate.*: at most maxTokens new
// ids.
func (e *Engine) Generate(ctx context.Context, prompt []int32, maxTokens int) ([]int32, error) {
	var out *C.plait_bytes
	err := e.stoppable(ctx, nil, func(p, _ unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_generate((*C.plait_engine)(p), first(prompt), C.int64_t(len(prompt)),
			C.int64_t(maxTokens), noLimit, &out, fail)
	})
	if err != nil {
		return nil, err
	}
	return take[int32](out), nil
}

// AttachDataset makes a dataset the source of nil batches for role "train" or "evaluate"; nil detaches. The engine
// keeps a reference: dataset may be closed.
func (e *Engine) AttachDataset(ctx context.Context, role string, dataset *Dataset) error {
	name, err := text(role)
	if err != nil {
		return err
	}
	return e.limited(ctx, dataset.ref(), func(p, q unsafe.Pointer, ms C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_engine_attach_dataset((*C.plait_engine)(p), name, (*C.plait_dataset)(q), ms, fail)
	})
}

// RequestStop asks for an orderly stop: the next step finishes in all processes and returns Stopped.
func (e *Engine) RequestStop() {
	if p, err := e.enter(); err == nil {
		defer e.leave()
		C.plait_engine_request_stop((*C.plait_engine)(p))
	}
}

// Abort ends at once: calls that run fail with Aborted within a second and the engine is lost.
func (e *Engine) Abort() {
	if p, err := e.enter(); err == nil {
		defer e.leave()
		C.plait_engine_abort((*C.plait_engine)(p))
	}
}

// SetStopGrace sets how long after the end of its context a call may take to stop in good order; then it is aborted.
// 0, which holds at the start, waits as long as it takes.
func (e *Engine) SetStopGrace(grace time.Duration) { e.grace.Store(int64(grace)) }

// Shutdown ends the engine in good order: saves finish or are given up by the deadline, and the other processes,
// which make the same call, see no loss. Close it then.
func (e *Engine) Shutdown(ctx context.Context) error {
	return e.limited(ctx, nil, func(p, _ unsafe.Pointer, ms C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_engine_close((*C.plait_engine)(p), ms, fail)
	})
}

// stoppable makes a call that a stop ends.
func (e *Engine) stoppable(ctx context.Context, other *handle,
	f func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t) error {
	err := e.callWith(other, func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		stop := func() { C.plait_engine_request_stop((*C.plait_engine)(p)) }
		abort := func() { C.plait_engine_abort((*C.plait_engine)(p)) }
		defer watch(ctx, stop, time.Duration(e.grace.Load()), abort)()
		return f(p, q, fail)
	})
	return because(ctx, err)
}

// measured makes a stoppable call that fills metrics.
func (e *Engine) measured(ctx context.Context, batch *Batch,
	f func(p, q unsafe.Pointer, m *C.plait_metrics, fail **C.plait_error) C.int32_t) (Metrics, error) {
	var metrics C.plait_metrics
	metrics.struct_size = C.int64_t(unsafe.Sizeof(metrics))
	err := e.stoppable(ctx, batch.ref(), func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return f(p, q, &metrics, fail)
	})
	return metricsOf(&metrics), err
}

// limited makes a call whose time limit is the deadline of its context.
func (h *handle) limited(ctx context.Context, other *handle,
	f func(p, q unsafe.Pointer, ms C.int64_t, fail **C.plait_error) C.int32_t) error {
	if err := ended(ctx); err != nil {
		return err
	}
	err := h.callWith(other, func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return f(p, q, limit(ctx), fail)
	})
	return because(ctx, err)
}
