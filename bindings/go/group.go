package plait

// #include <plait/plait.h>
import "C"

import (
	"context"
	"time"
	"unsafe"
)

// Group says which ranks this process drives, and brings processes together. One goroutine at a time; Abort and
// Close at any time.
type Group struct{ handle }

// NewGroup makes a group in which this process drives ranks rank … rank + localRanks - 1 of world. Where localRanks
// equals world it is complete at once: Commit, JoinTCP and JoinKV then do nothing.
func (c *Context) NewGroup(config *Config, rank, localRanks, world int) (*Group, error) {
	var numbers [3]C.int32_t
	for i, value := range []int{rank, localRanks, world} {
		number, err := narrow("rank, localRanks or world", value)
		if err != nil {
			return nil, err
		}
		numbers[i] = number
	}
	var made *C.plait_group
	err := c.callWith(config.ref(), func(p, q unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_group_create((*C.plait_context)(p), (*C.plait_config)(q), numbers[0], numbers[1], numbers[2],
			&made, fail)
	})
	if err != nil {
		return nil, err
	}
	group := &Group{}
	group.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_group_free((*C.plait_group)(p)) },
		func(p unsafe.Pointer) { C.plait_group_abort((*C.plait_group)(p)) })
	return group, nil
}

// Card is the card of this process, at most 4 KiB. Give it to the other processes by any means.
func (g *Group) Card() ([]byte, error) {
	return g.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_group_card((*C.plait_group)(p), out, fail)
	})
}

// AddCard adds the card of one process, in any order; the own one is allowed.
func (g *Group) AddCard(card []byte) error {
	return g.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_group_add_card((*C.plait_group)(p), unsafe.Pointer(&some(card)[0]), C.int64_t(len(card)), fail)
	})
}

// Commit connects to all processes whose cards were added; every process calls it.
func (g *Group) Commit(ctx context.Context) error {
	return g.meet(ctx, func(p unsafe.Pointer, milliseconds C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_group_commit((*C.plait_group)(p), milliseconds, fail)
	})
}

// JoinTCP exchanges cards by TCP, then commits: the process of rank 0 listens on "host:port", the others connect to
// it. Key network.token keeps strangers out.
func (g *Group) JoinTCP(ctx context.Context, address string) error {
	name, err := text(address)
	if err != nil {
		return err
	}
	return g.meet(ctx, func(p unsafe.Pointer, milliseconds C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_group_join_tcp((*C.plait_group)(p), name, milliseconds, fail)
	})
}

// Measure measures "links", "compute" or "all": a configuration fragment for the planner, in JSON. Every process
// calls it.
func (g *Group) Measure(ctx context.Context, what string) ([]byte, error) {
	name, err := text(what)
	if err != nil {
		return nil, err
	}
	var out *C.plait_bytes
	err = g.meet(ctx, func(p unsafe.Pointer, milliseconds C.int64_t, fail **C.plait_error) C.int32_t {
		return C.plait_group_measure((*C.plait_group)(p), name, milliseconds, &out, fail)
	})
	if err != nil {
		return nil, err
	}
	return take[byte](out), nil
}

// Abort ends a Commit, JoinTCP, JoinKV or Measure that waits: it fails with Aborted.
func (g *Group) Abort() {
	_ = g.call(func(p unsafe.Pointer, _ **C.plait_error) C.int32_t {
		C.plait_group_abort((*C.plait_group)(p))
		return C.PLAIT_OK
	})
}

// lateAbort is how long after a deadline the library may take to say what it waited for.
const lateAbort = time.Second

// meet makes a call that waits for other processes.
func (g *Group) meet(ctx context.Context,
	f func(p unsafe.Pointer, milliseconds C.int64_t, fail **C.plait_error) C.int32_t) error {
	if err := ended(ctx); err != nil {
		return err
	}
	err := g.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		abort := func() { C.plait_group_abort((*C.plait_group)(p)) }
		cancel := func() {
			if ctx.Err() != context.DeadlineExceeded {
				abort()
			}
		}
		defer watch(ctx, cancel, lateAbort, abort)()
		return f(p, limit(ctx), fail)
	})
	return because(ctx, err)
}
