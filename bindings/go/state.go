package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"fmt"
	"unsafe"
)

// Kind says what of a parameter is meant. Numbers are those of the checkpoint format.
type Kind int32

// Kinds. A gradient is never stored in a checkpoint.
const (
	Param    Kind = C.PLAIT_KIND_PARAM
	Master   Kind = C.PLAIT_KIND_MASTER
	Moment1  Kind = C.PLAIT_KIND_MOMENT1
	Moment2  Kind = C.PLAIT_KIND_MOMENT2
	Extra    Kind = C.PLAIT_KIND_EXTRA
	Gradient Kind = C.PLAIT_KIND_GRADIENT
)

// DType is the type of the elements of a tensor.
type DType int32

// Types of elements.
const (
	Float32  DType = C.PLAIT_DTYPE_FLOAT32
	BFloat16 DType = C.PLAIT_DTYPE_BFLOAT16
	Float16  DType = C.PLAIT_DTYPE_FLOAT16
	Int32    DType = C.PLAIT_DTYPE_INT32
	Int64    DType = C.PLAIT_DTYPE_INT64
	Uint8    DType = C.PLAIT_DTYPE_UINT8
)

// Entry is one (logical tensor, kind), or a property of the host, whose kind is 0.
type Entry struct {
	Name      string
	Kind      Kind
	DType     DType
	Shape     []int64 // outermost first
	Elements  int64
	HasDigest bool // of what is stored; a live tensor has none
	Digest    int64
	Value     any // of a property: int64, float64 or string
}

func entryOf(info *C.plait_entry_info) Entry {
	entry := Entry{Name: C.GoString(info.name), Kind: Kind(info.kind)}
	if info.valid&C.PLAIT_ENTRY_TENSOR != 0 {
		shape := [...]C.int64_t{info.shape0, info.shape1, info.shape2, info.shape3}
		entry.DType, entry.Elements = DType(info.dtype), int64(info.elements)
		for i := 0; i < int(info.dims) && i < len(shape); i++ {
			entry.Shape = append(entry.Shape, int64(shape[i]))
		}
	}
	if info.valid&C.PLAIT_ENTRY_DIGEST != 0 {
		entry.HasDigest, entry.Digest = true, int64(info.digest)
	}
	if info.valid&C.PLAIT_ENTRY_PROPERTY != 0 {
		switch info._type {
		case C.PLAIT_PROPERTY_INTEGER:
			entry.Value = int64(info.integer)
		case C.PLAIT_PROPERTY_REAL:
			entry.Value = float64(info.real)
		case C.PLAIT_PROPERTY_TEXT:
			entry.Value = C.GoString(info.text)
		}
	}
	return entry
}

// entries lists what count and at describe.
func (h *handle) entries(count func(p unsafe.Pointer) C.int64_t,
	at func(p unsafe.Pointer, index C.int64_t, info *C.plait_entry_info, fail **C.plait_error) C.int32_t) ([]Entry, error) {
	var all []Entry
	err := h.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		size := count(p)
		all = make([]Entry, 0, int(size))
		for i := C.int64_t(0); i < size; i++ {
			var info C.plait_entry_info
			info.struct_size = C.int64_t(unsafe.Sizeof(info))
			if code := at(p, i, &info, fail); code != C.PLAIT_OK {
				return code
			}
			all = append(all, entryOf(&info))
		}
		return C.PLAIT_OK
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Tensors lists every (logical tensor, kind), in name and kind order and equal in every process.
func (e *Engine) Tensors() ([]Entry, error) {
	return e.entries(
		func(p unsafe.Pointer) C.int64_t { return C.plait_engine_tensor_count((*C.plait_engine)(p)) },
		func(p unsafe.Pointer, index C.int64_t, info *C.plait_entry_info, fail **C.plait_error) C.int32_t {
			return C.plait_engine_tensor_at((*C.plait_engine)(p), index, info, fail)
		})
}

// ReadTensor copies a whole tensor, row-major and converted to float32, into values, which has as many elements. An
// empty values only takes part in the call.
func (e *Engine) ReadTensor(ctx context.Context, name string, kind Kind, values []float32) error {
	return e.readTensor(ctx, name, kind, Float32, raw(values))
}

// ReadTensorBytes is ReadTensor for any type of element; data has exactly the bytes that the tensor takes.
func (e *Engine) ReadTensorBytes(ctx context.Context, name string, kind Kind, dtype DType, data []byte) error {
	return e.readTensor(ctx, name, kind, dtype, data)
}

func (e *Engine) readTensor(ctx context.Context, name string, kind Kind, dtype DType, data []byte) error {
	tensor, err := text(name)
	if err != nil {
		return err
	}
	return e.limited(ctx, nil, func(p, _ unsafe.Pointer, ms C.int64_t, fail **C.plait_error) C.int32_t {
		if len(data) == 0 {
			return C.plait_engine_tensor_read((*C.plait_engine)(p), tensor, C.int32_t(kind), C.int32_t(dtype), ms, nil, 0,
				fail)
		}
		return C.plait_engine_tensor_read((*C.plait_engine)(p), tensor, C.int32_t(kind), C.int32_t(dtype), ms,
			unsafe.Pointer(&data[0]), C.int64_t(len(data)), fail)
	})
}

// WriteTensor replaces a whole tensor. The values of the process of rank 0 count. Param and Master stay consistent
// with each other.
func (e *Engine) WriteTensor(ctx context.Context, name string, kind Kind, values []float32) error {
	return e.writeTensor(ctx, name, kind, Float32, raw(values))
}

// WriteTensorBytes is WriteTensor for any type of element.
func (e *Engine) WriteTensorBytes(ctx context.Context, name string, kind Kind, dtype DType, data []byte) error {
	return e.writeTensor(ctx, name, kind, dtype, data)
}

func (e *Engine) writeTensor(ctx context.Context, name string, kind Kind, dtype DType, data []byte) error {
	tensor, err := text(name)
	if err != nil {
		return err
	}
	return e.limited(ctx, nil, func(p, _ unsafe.Pointer, ms C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_engine_tensor_write((*C.plait_engine)(p), tensor, C.int32_t(kind), C.int32_t(dtype),
			unsafe.Pointer(&some(data)[0]), C.int64_t(len(data)), ms, fail)
	})
}

// Set sets a key that is mutable at run time; it takes effect when the next step, save or load opens. Make the same
// call in every process.
func (e *Engine) Set(key, value string) error {
	t, err := texts(key, value)
	if err != nil {
		return err
	}
	return e.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_set((*C.plait_engine)(p), t[0], t[1], fail)
	})
}

// Reset brings a key that is mutable at run time back to its default.
func (e *Engine) Reset(key string) error {
	name, err := text(key)
	if err != nil {
		return err
	}
	return e.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_set((*C.plait_engine)(p), name, nil, fail)
	})
}

// SetProperty sets a named value, an int64, int, float64 or string, that goes into checkpoints. Names are
// [a-z0-9_.-]{1,128}; a string has at most 64 KiB.
func (e *Engine) SetProperty(name string, value any) error {
	var (
		kind    C.int32_t
		integer C.int64_t
		real    C.double
		written string
	)
	switch v := value.(type) {
	case int64:
		kind, integer = C.PLAIT_PROPERTY_INTEGER, C.int64_t(v)
	case int:
		kind, integer = C.PLAIT_PROPERTY_INTEGER, C.int64_t(v)
	case float64:
		kind, real = C.PLAIT_PROPERTY_REAL, C.double(v)
	case string:
		kind, written = C.PLAIT_PROPERTY_TEXT, v
	default:
		return refused(InvalidArgument, "argument", fmt.Sprintf("a property is no %T", value), nil)
	}
	t, err := texts(name, written)
	if err != nil {
		return err
	}
	return e.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_set_property((*C.plait_engine)(p), t[0], kind, integer, real, t[1], fail)
	})
}

// Counter is the value of a counter of report "counters". It answers also after the engine is lost.
func (e *Engine) Counter(name string) (float64, error) {
	counter, err := text(name)
	if err != nil {
		return 0, err
	}
	var value C.double
	err = e.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_engine_counter((*C.plait_engine)(p), counter, &value, fail)
	})
	return float64(value), err
}

// Report is JSON about "config", "ranks", "kernels", "memory", "schedule", "counters", "properties", "operations" or
// "trace". It answers also after the engine is lost.
func (e *Engine) Report(kind string) ([]byte, error) {
	name, err := text(kind)
	if err != nil {
		return nil, err
	}
	return e.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_engine_report((*C.plait_engine)(p), name, out, fail)
	})
}
