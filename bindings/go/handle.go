package plait

// #include <plait/plait.h>
import "C"

import (
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// handle guards one handle of the library. A call holds it from enter to leave. After Close the last call that
// leaves frees it, so that no call ever meets memory that is gone. A nil handle stands for an argument that was not
// given: it gives a nil pointer.
type handle struct {
	mutex     sync.Mutex
	pointer   unsafe.Pointer
	calls     int
	isClosed  bool
	free      func(unsafe.Pointer)
	interrupt func(unsafe.Pointer) // ends calls that run; nil where none lasts
}

// hold takes ownership of what the library made.
func (h *handle) hold(pointer unsafe.Pointer, free, interrupt func(unsafe.Pointer)) {
	h.pointer, h.free, h.interrupt = pointer, free, interrupt
}

func (h *handle) enter() (unsafe.Pointer, error) {
	if h == nil {
		return nil, nil
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.isClosed || h.pointer == nil {
		return nil, refused(InvalidArgument, "bad_handle", "the handle is closed or was never opened", ErrClosed)
	}
	h.calls++
	return h.pointer, nil
}

func (h *handle) leave() {
	if h == nil {
		return
	}
	h.mutex.Lock()
	h.calls--
	isLast := h.isClosed && h.calls == 0
	h.mutex.Unlock()
	if isLast {
		h.free(h.pointer)
	}
	runtime.KeepAlive(h)
}

// Close frees the handle; it ends a call that runs on it and does not wait for that call. It never fails, and a
// second one does nothing.
func (h *handle) Close() error {
	if _, err := h.enter(); err != nil {
		return nil
	}
	h.mutex.Lock()
	isFirst, isAlone := !h.isClosed, h.calls == 1
	h.isClosed = true
	h.mutex.Unlock()
	if isFirst && !isAlone && h.interrupt != nil {
		h.interrupt(h.pointer)
	}
	h.leave()
	return nil
}

// call makes one call of the library on the handle.
func (h *handle) call(f func(p unsafe.Pointer, fail **C.plait_error) C.int32_t) error {
	return h.callWith(nil, func(p, _ unsafe.Pointer, fail **C.plait_error) C.int32_t { return f(p, fail) })
}

// callWith makes one call on two handles, of which the second may be nil.
func (h *handle) callWith(other *handle, f func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t) error {
	p, err := h.enter()
	if err != nil {
		return err
	}
	defer h.leave()
	q, err := other.enter()
	if err != nil {
		return err
	}
	defer other.leave()
	var object *C.plait_error
	code := f(p, q, &object)
	return result(code, object)
}

// bytes makes one call that answers with bytes.
func (h *handle) bytes(f func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t) ([]byte, error) {
	var out *C.plait_bytes
	err := h.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t { return f(p, &out, fail) })
	if err != nil {
		return nil, err
	}
	return take[byte](out), nil
}

// take copies what the library answered and frees it.
func take[T byte | int32](answer *C.plait_bytes) []T {
	defer C.plait_bytes_free(answer)
	var element T
	values := make([]T, int(C.plait_bytes_size(answer))/int(unsafe.Sizeof(element)))
	if len(values) > 0 {
		copy(values, unsafe.Slice((*T)(C.plait_bytes_data(answer)), len(values)))
	}
	return values
}

// first is where the memory of ids begins, nil when there are none. C reads it during one call alone.
func first(ids []int32) *C.int32_t {
	if len(ids) == 0 {
		return nil
	}
	return (*C.int32_t)(unsafe.Pointer(&ids[0]))
}

// some is data, or one byte where it is empty. What goes to C as void* is written &some(data)[0]: of that cgo checks
// the bytes alone, and not all of the object that they are a part of, which may hold pointers.
func some(data []byte) []byte {
	if len(data) == 0 {
		return make([]byte, 1)
	}
	return data
}

// raw is the memory of values.
func raw(values []float32) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
}

// text is a name as C wants it. The copy is memory of Go without pointers, which C reads during one call alone.
func text(value string) (*C.char, error) {
	if strings.IndexByte(value, 0) >= 0 {
		return nil, refused(InvalidArgument, "argument", "a text holds a NUL", nil)
	}
	copied := append([]byte(value), 0)
	return (*C.char)(unsafe.Pointer(&copied[0])), nil
}

func texts(values ...string) ([]*C.char, error) {
	all := make([]*C.char, len(values))
	for i, value := range values {
		one, err := text(value)
		if err != nil {
			return nil, err
		}
		all[i] = one
	}
	return all, nil
}

// narrow refuses a number that the library's type would cut.
func narrow(name string, value int) (C.int32_t, error) {
	if value != int(int32(value)) {
		return 0, refused(InvalidArgument, "argument", name+" does not fit 32 bits", nil)
	}
	return C.int32_t(value), nil
}
