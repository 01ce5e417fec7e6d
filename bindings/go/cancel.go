package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"time"
)

// noLimit leaves a call to the configured deadlines.
const noLimit = C.int64_t(-1)

// limit is the time that a context leaves, in milliseconds.
func limit(ctx context.Context) C.int64_t {
	deadline, ok := ctx.Deadline()
	if !ok {
		return noLimit
	}
	left := (time.Until(deadline) + time.Millisecond - 1) / time.Millisecond
	if left < 1 {
		left = 1
	}
	return C.int64_t(left)
}

// watch calls stop when ctx ends and, where grace is not 0, giveUp so long after. Neither is called once the function
// that it returns has returned. stop is called at once where ctx has ended before.
func watch(ctx context.Context, stop func(), grace time.Duration, giveUp func()) (over func()) {
	if ctx.Done() == nil {
		return func() {}
	}
	if ctx.Err() != nil {
		stop()
		stop = func() {}
	}
	isOver, hasEnded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(hasEnded)
		select {
		case <-isOver:
			return
		case <-ctx.Done():
		}
		stop()
		if grace <= 0 {
			return
		}
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-isOver:
		case <-timer.C:
			giveUp()
		}
	}()
	return func() {
		close(isOver)
		<-hasEnded
	}
}
