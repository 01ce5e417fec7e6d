package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Code says what kind of failure an error is. A code is an error itself, the target of errors.Is for errors of this
// kind. Expect numbers without a name here from a newer library.
type Code int32

// Codes of errors. OK is none.
const (
	OK                 Code = C.PLAIT_OK
	Cancelled          Code = C.PLAIT_CANCELLED
	Unknown            Code = C.PLAIT_UNKNOWN
	InvalidArgument    Code = C.PLAIT_INVALID_ARGUMENT
	DeadlineExceeded   Code = C.PLAIT_DEADLINE_EXCEEDED
	NotFound           Code = C.PLAIT_NOT_FOUND
	AlreadyExists      Code = C.PLAIT_ALREADY_EXISTS
	PermissionDenied   Code = C.PLAIT_PERMISSION_DENIED
	ResourceExhausted  Code = C.PLAIT_RESOURCE_EXHAUSTED
	FailedPrecondition Code = C.PLAIT_FAILED_PRECONDITION
	Aborted            Code = C.PLAIT_ABORTED
	OutOfRange         Code = C.PLAIT_OUT_OF_RANGE
	Unimplemented      Code = C.PLAIT_UNIMPLEMENTED
	Internal           Code = C.PLAIT_INTERNAL
	Unavailable        Code = C.PLAIT_UNAVAILABLE
	DataLoss           Code = C.PLAIT_DATA_LOSS
	Unauthenticated    Code = C.PLAIT_UNAUTHENTICATED
	HostError          Code = C.PLAIT_HOST_ERROR // a KV of this program failed
	PeerLost           Code = C.PLAIT_PEER_LOST  // another process died or froze

	// Stopped is returned by a call that a stop has ended in good order, and is no failure: of Step and
	// OptimizerStep the work is done, of ForwardBackward too, and the metrics are valid; Evaluate, Score, Generate
	// and Load had no effect. The state can be saved, and the next call trains on.
	Stopped Code = C.PLAIT_STOPPED
)

// Error is the name of the code, such as NOT_FOUND; UNKNOWN for a number that the library does not know.
func (c Code) Error() string { return C.GoString(C.plait_code_name(C.int32_t(c))) }

// Disposition says what an error left behind.
type Disposition int32

// Dispositions. An error that matches Stopped has none, 0.
const (
	Unchanged   Disposition = C.PLAIT_DISPOSITION_UNCHANGED    // no effect; correct the call
	Retry       Disposition = C.PLAIT_DISPOSITION_RETRY        // no effect; the same call may succeed later
	EngineLost  Disposition = C.PLAIT_DISPOSITION_ENGINE_LOST  // close engine and group, then make new ones
	ProcessLost Disposition = C.PLAIT_DISPOSITION_PROCESS_LOST // cannot be repaired in this process
)

// ErrClosed is matched by the error of a call on a handle that was closed, or never opened.
var ErrClosed = errors.New("plait: the handle is closed")

// Error is what every call of the package returns when it fails. It is immutable.
type Error struct {
	Code        Code
	Word        string // for programs, as stable as the code
	Message     string // one line: "<word>: <sentence>; key=value …"
	Rank        int    // where it began, -1: no rank
	Disposition Disposition
	Subsystem   string          // part that failed, "" when it did not say
	Details     json.RawMessage // fields of the message as a JSON object
	HostCode    int64           // of a KV: 1 an error, 2 a panic; else 0

	cause error
}

// Error is the name of the code and the message.
func (e *Error) Error() string { return e.Code.Error() + ": " + e.Message }

// Is reports whether target is the code of the error.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Unwrap is what made the library fail, where it came from this side: the error of a context.Context, of a KV, or
// ErrClosed.
func (e *Error) Unwrap() error { return e.cause }

// result turns the answer of the library into an error and frees the error object.
func result(code C.int32_t, object *C.plait_error) error {
	if code == C.PLAIT_OK {
		return nil
	}
	if object == nil { // an answer to a request, no failure
		return &Error{Code: Code(code), Word: "stopped", Message: "stopped: a stop was asked for", Rank: -1,
			Details: json.RawMessage("{}")}
	}
	defer C.plait_error_free(object)
	return &Error{
		Code:        Code(code),
		Word:        C.GoString(C.plait_error_word(object)),
		Message:     C.GoString(C.plait_error_message(object)),
		Rank:        int(C.plait_error_rank(object)),
		Disposition: Disposition(C.plait_error_disposition(object)),
		Subsystem:   C.GoString(C.plait_error_subsystem(object)),
		Details:     json.RawMessage(C.GoString(C.plait_error_details(object))),
		HostCode:    int64(C.plait_error_host_code(object)),
	}
}

// refused is an error of the binding's own: nothing reached the library.
func refused(code Code, word, sentence string, cause error) error {
	return &Error{Code: code, Word: word, Message: word + ": " + sentence, Rank: -1, Disposition: Unchanged,
		Subsystem: "bindings/go", Details: json.RawMessage("{}"), cause: cause}
}

// ended is the error of a call that does not begin, or no longer waits, because its context has ended; else nil.
func ended(ctx context.Context) error {
	switch cause := ctx.Err(); cause {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return refused(DeadlineExceeded, "deadline", "the deadline of the context has passed", cause)
	default:
		return refused(Cancelled, "cancelled", "the context was cancelled", cause)
	}
}

// because adds the end of a context to an error that it has brought about.
func because(ctx context.Context, err error) error {
	failure, ok := err.(*Error)
	if !ok || failure.cause != nil {
		return err
	}
	switch failure.Code {
	case Stopped, Aborted, DeadlineExceeded:
		failure.cause = ctx.Err()
	}
	// The library counts whole milliseconds, so that its limit may be over before the context is.
	deadline, ok := ctx.Deadline()
	if ok && failure.Code == DeadlineExceeded && failure.cause == nil && time.Until(deadline) < 2*time.Millisecond {
		failure.cause = context.DeadlineExceeded
	}
	return err
}
