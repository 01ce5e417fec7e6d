package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"errors"
	"unsafe"
)

// Op is work that outlives its call. Any goroutine may use it at any time. Close neither waits nor cancels.
type Op struct{ handle }

// OpState is the state of an operation.
type OpState int32

// States of operations.
const (
	OpRunning   OpState = C.PLAIT_OP_RUNNING
	OpDone      OpState = C.PLAIT_OP_DONE
	OpFailed    OpState = C.PLAIT_OP_FAILED
	OpCancelled OpState = C.PLAIT_OP_CANCELLED
)

// start makes a call that begins an operation.
func (h *handle) start(other *handle,
	f func(p, q unsafe.Pointer, op **C.plait_op, fail **C.plait_error) C.int32_t) (*Op, error) {
	var made *C.plait_op
	err := h.callWith(other, func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t { return f(p, q, &made, fail) })
	if err != nil {
		return nil, err
	}
	return newOp(made), nil
}

func newOp(made *C.plait_op) *Op {
	op := &Op{}
	op.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_op_free((*C.plait_op)(p)) }, nil)
	return op
}

// waitSlice is how often Wait looks whether its context has ended or the operation was closed, in milliseconds.
const waitSlice = 20

// Wait waits for the end of the operation and returns how it ended. When ctx ends first, the error matches
// DeadlineExceeded or Cancelled and the error of ctx, and the operation runs on.
func (o *Op) Wait(ctx context.Context) error {
	for {
		err := o.wait()
		if !errors.Is(err, DeadlineExceeded) {
			return err
		}
		progress, failed := o.Progress()
		if failed != nil {
			return failed
		}
		if progress.State != OpRunning { // the limit that was exceeded was the operation's own
			return o.wait()
		}
		if err := ended(ctx); err != nil {
			err.(*Error).Disposition = Retry
			return err
		}
	}
}

func (o *Op) wait() error {
	return o.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_op_wait((*C.plait_op)(p), waitSlice, fail)
	})
}

// Progress is how far an operation is.
type Progress struct {
	State      OpState
	DoneBytes  int64
	TotalBytes int64 // 0 as long as it is not known
}

// Progress says how far the operation is.
func (o *Op) Progress() (Progress, error) {
	var progress C.plait_progress
	progress.struct_size = C.int64_t(unsafe.Sizeof(progress))
	err := o.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_op_progress((*C.plait_op)(p), &progress, fail)
	})
	return Progress{State: OpState(progress.state), DoneBytes: int64(progress.done_bytes),
		TotalBytes: int64(progress.total_bytes)}, err
}

// Result is the JSON report of an operation that succeeded; FailedPrecondition with the word busy while it runs.
func (o *Op) Result() ([]byte, error) {
	return o.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_op_result((*C.plait_op)(p), out, fail)
	})
}

// Cancel asks the operation to end; it becomes OpCancelled unless it was done first. Nothing half-written stays.
func (o *Op) Cancel() {
	if p, err := o.enter(); err == nil {
		defer o.leave()
		C.plait_op_cancel((*C.plait_op)(p))
	}
}
