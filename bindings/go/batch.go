package plait

// #include <plait/plait.h>
import "C"

import "unsafe"

// Scope says which rows a batch holds.
type Scope int32

// Scopes of batches.
const (
	Global Scope = C.PLAIT_BATCH_GLOBAL // all rows, in global order; always legal
	Local  Scope = C.PLAIT_BATCH_LOCAL  // the rows of Engine.BatchSpan
)

// Batch holds tensors of int32 for one engine: "tokens" [rows, sequence length + 1] (or [rows, sequence length] beside
// "targets"), "targets" [rows, sequence length] (-1: ignored) and "documents" (shaped as tokens), row-major. One
// goroutine at a time. A call of the engine copies what its ranks read: the batch may be filled again or closed once
// the call has returned.
type Batch struct{ handle }

// NewBatch is an empty batch.
func (e *Engine) NewBatch(scope Scope) (*Batch, error) {
	var made *C.plait_batch
	err := e.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_batch_create((*C.plait_engine)(p), C.int32_t(scope), &made, fail)
	})
	if err != nil {
		return nil, err
	}
	batch := &Batch{}
	batch.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_batch_free((*C.plait_batch)(p)) }, nil)
	return batch, nil
}

func (b *Batch) ref() *handle {
	if b == nil {
		return nil
	}
	return &b.handle
}

// Set copies values, of rows × columns elements, into the batch. Tokens are checked when the batch is used.
func (b *Batch) Set(name string, rows, columns int, values []int32) error {
	if rows < 1 || columns < 1 || len(values)%columns != 0 || len(values)/columns != rows {
		return refused(InvalidArgument, "argument", "the values do not fill rows and columns", nil)
	}
	tensor, err := text(name)
	if err != nil {
		return err
	}
	return b.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_batch_set((*C.plait_batch)(p), tensor, first(values), C.int64_t(rows),
			C.int64_t(columns), fail)
	})
}

// Remove removes a tensor from the batch.
func (b *Batch) Remove(name string) error {
	tensor, err := text(name)
	if err != nil {
		return err
	}
	return b.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_batch_set((*C.plait_batch)(p), tensor, nil, 0, 0, fail)
	})
}

// Map is the batch's own memory of a tensor, of rows × columns elements, to be filled in place: nothing is copied on
// the way. It keeps its content while the shape stays the same. The slice is memory of the library: it dies, whoever
// still holds it, when the tensor gets another shape or is removed, and when the batch is closed. Do not touch it
// while a call of the engine runs on the batch.
func (b *Batch) Map(name string, rows, columns int) ([]int32, error) {
	tensor, err := text(name)
	if err != nil {
		return nil, err
	}
	var values *C.int32_t
	err = b.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_batch_map((*C.plait_batch)(p), tensor, C.int64_t(rows), C.int64_t(columns), &values, fail)
	})
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*int32)(values), rows*columns), nil
}
