package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"unsafe"
)

// Save takes a snapshot and writes it as a new step of root; it returns after the snapshot. The operation ends when
// the step is durable.
func (e *Engine) Save(ctx context.Context, root string) (*Op, error) {
	path, err := text(root)
	if err != nil {
		return nil, err
	}
	var made *C.plait_op
	err = e.limited(ctx, nil, func(p, _ unsafe.Pointer, ms C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_save((*C.plait_engine)(p), path, ms, &made, fail)
	})
	if err != nil {
		return nil, err
	}
	return newOp(made), nil
}

// Load takes the state of a root (its newest step), of one step directory, or the weights of a Hugging Face
// directory, whatever layout saved it. The JSON report names the step that was taken, and newer ones that were
// skipped, with the reason.
func (e *Engine) Load(ctx context.Context, path string) ([]byte, error) {
	name, err := text(path)
	if err != nil {
		return nil, err
	}
	var report *C.plait_bytes
	err = e.stoppable(ctx, nil, func(p, _ unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_load((*C.plait_engine)(p), name, noLimit, &report, fail)
	})
	if err != nil {
		return nil, err
	}
	return take[byte](report), nil
}

// Checkpoint is a checkpoint or a Hugging Face directory, open without engine or device. One goroutine at a time.
type Checkpoint struct{ handle }

// OpenCheckpoint opens a root (its newest step), one step directory, or a Hugging Face directory.
func (c *Context) OpenCheckpoint(path string) (*Checkpoint, error) {
	name, err := text(path)
	if err != nil {
		return nil, err
	}
	var made *C.plait_checkpoint
	err = c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_open((*C.plait_context)(p), name, &made, fail)
	})
	if err != nil {
		return nil, err
	}
	checkpoint := &Checkpoint{}
	checkpoint.hold(unsafe.Pointer(made),
		func(p unsafe.Pointer) { C.plait_checkpoint_free((*C.plait_checkpoint)(p)) }, nil)
	return checkpoint, nil
}

// Report is JSON about what is open: format, step, model, layout, optimizer, data position, digests, as far as the
// format has them.
func (c *Checkpoint) Report() ([]byte, error) {
	return c.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_report((*C.plait_checkpoint)(p), out, fail)
	})
}

// Entries lists every (logical tensor, kind) in name and kind order, then the properties.
func (c *Checkpoint) Entries() ([]Entry, error) {
	return c.entries(
		func(p unsafe.Pointer) C.int64_t { return C.plait_checkpoint_entry_count((*C.plait_checkpoint)(p)) },
		func(p unsafe.Pointer, index C.int64_t, info *C.plait_entry_info, fail **C.plait_error) C.int32_t {
			return C.plait_checkpoint_entry_at((*C.plait_checkpoint)(p), index, info, fail)
		})
}

// Set sets a key for later calls on what is open, of which there is checkpoint.mmap: "true" says that the storage is
// trusted, since a file that is cut short under a mapping ends the process.
func (c *Checkpoint) Set(key, value string) error {
	t, err := texts(key, value)
	if err != nil {
		return err
	}
	return c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_set((*C.plait_checkpoint)(p), t[0], t[1], fail)
	})
}

// Map is one whole tensor, verified, row-major, in the type in which it is stored. The slice is memory of the library
// that is not to be written; it dies, whoever still holds it, when the checkpoint is closed.
func (c *Checkpoint) Map(name string, kind Kind) ([]byte, error) {
	tensor, err := text(name)
	if err != nil {
		return nil, err
	}
	var data unsafe.Pointer
	var bytes C.int64_t
	err = c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_map((*C.plait_checkpoint)(p), tensor, C.int32_t(kind), &data, &bytes, fail)
	})
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(data), int(bytes)), nil
}

// Verify reads and checks everything; damage is DataLoss with all of it in the details. A full one looks at gaps and
// unread parts too.
func (c *Checkpoint) Verify(isFull bool) (*Op, error) {
	full := C.int32_t(0)
	if isFull {
		full = 1
	}
	return c.start(nil, func(p, _ unsafe.Pointer, op **C.plait_op, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_verify((*C.plait_checkpoint)(p), full, op, fail)
	})
}

// Convert writes what is open as a checkpoint under root in the layout of layout.
func (c *Checkpoint) Convert(layout *Config, root string) (*Op, error) {
	path, err := text(root)
	if err != nil {
		return nil, err
	}
	return c.start(layout.ref(), func(p, q unsafe.Pointer, op **C.plait_op, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_convert((*C.plait_checkpoint)(p), (*C.plait_config)(q), path, op, fail)
	})
}

// ExportHF writes a Hugging Face directory by keys export.* of options, which may be nil; it appears whole or not at
// all.
func (c *Checkpoint) ExportHF(options *Config, directory string) (*Op, error) {
	path, err := text(directory)
	if err != nil {
		return nil, err
	}
	return c.start(options.ref(), func(p, q unsafe.Pointer, op **C.plait_op, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_export_hf((*C.plait_checkpoint)(p), (*C.plait_config)(q), path, op, fail)
	})
}
