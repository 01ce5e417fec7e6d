package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/cgo"
	"runtime/debug"
	"time"
	"unsafe"
)

// KV is a key-value store of this program, through which processes find each other. Keys are the same for all groups
// of one size, and what an earlier group put must not be seen: give each try a prefix of its own.
//
// JoinKV calls it, one method at a time, each on a goroutine of its own. An error or a panic ends the join, which then
// fails with HostError and wraps that error, or a *PanicError. The methods may not use the library.
type KV interface {
	// Put stores value under key. value is the callee's to keep.
	Put(ctx context.Context, key string, value []byte) error
	// Get is the value under key. Where the key does not appear before ctx ends, Get returns the error of ctx, or
	// no value and no error; it is then asked again, up to the limit of the join.
	Get(ctx context.Context, key string) ([]byte, error)
}

// PanicError is a panic of a KV.
type PanicError struct {
	Value any    // what was given to panic; nil where the goroutine was ended by runtime.Goexit
	Stack []byte // where
}

// Error says what was given to panic.
func (e *PanicError) Error() string {
	return fmt.Sprintf("plait: a key-value store panicked: %v", e.Value)
}

// What a failed call of a KV tells the library.
const (
	hostFailed   = 1
	hostPanicked = 2
)

// askAgain is the pause before the library asks once more for a key that is not there. A store that does not wait, or
// whose context has ended, would else be asked without end, and other goroutines have no turn meanwhile: among them the
// one that ends this join.
const askAgain = time.Millisecond

// joining is one JoinKV: what its callbacks need.
type joining struct {
	ctx     context.Context
	store   KV
	failure error
}

// ask runs one call of the store and keeps how it failed.
func (j *joining) ask(f func() error) C.int64_t {
	done := make(chan error, 1)
	go func() {
		hasReturned := false
		defer func() {
			if value := recover(); value != nil || !hasReturned {
				done <- &PanicError{Value: value, Stack: debug.Stack()}
			}
		}()
		err := f()
		hasReturned = true
		done <- err
	}()
	err := <-done
	if err == nil {
		return 0
	}
	j.failure = err
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return hostPanicked
	}
	return hostFailed
}

//export plait_go_put
func plait_go_put(user C.uintptr_t, key *C.char, value unsafe.Pointer, bytes C.int64_t) C.int64_t {
	j := cgo.Handle(user).Value().(*joining)
	name, copied := C.GoString(key), append([]byte{}, unsafe.Slice((*byte)(value), int(bytes))...)
	return j.ask(func() error { return j.store.Put(j.ctx, name, copied) })
}

//export plait_go_get
func plait_go_get(user C.uintptr_t, key *C.char, milliseconds C.int64_t, reply *C.plait_reply) C.int64_t {
	j := cgo.Handle(user).Value().(*joining)
	name := C.GoString(key)
	ctx, cancel := context.WithTimeout(j.ctx, time.Duration(milliseconds)*time.Millisecond)
	defer cancel()
	var value []byte
	code := j.ask(func() (err error) {
		value, err = j.store.Get(ctx, name)
		if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			value, err = nil, nil
		}
		return err
	})
	if code == 0 && len(value) > 0 {
		return C.int64_t(C.plait_reply_set(reply, unsafe.Pointer(&value[0]), C.int64_t(len(value)), nil))
	}
	if code == 0 {
		time.Sleep(askAgain)
	}
	return code
}
