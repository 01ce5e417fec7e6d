package plait_test

import (
	"context"
	"errors"
	"math"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"plait.dev/plait"
)

// pair makes the two groups of a world of two ranks, each with a context and a configuration of its own.
func pair(t *testing.T, set ...string) [2]*host {
	t.Helper()
	var both [2]*host
	for rank := range both {
		h := &host{context: must(plait.NewContext())}
		h.config = must(h.context.NewConfig())
		check(h.config.Load([]byte(tiny)))
		check(h.config.Set("layout.data", "2"))
		check(h.config.Set("layout.micro_batch", "2"))
		for i := 0; i < len(set); i += 2 {
			check(h.config.Set(set[i], set[i+1]))
		}
		h.group = must(h.context.NewGroup(h.config, rank, 1, 2))
		t.Cleanup(func() {
			for _, one := range []closer{h.config, h.group, h.context} {
				check(one.Close())
			}
		})
		both[rank] = h
	}
	return both
}

// together runs f for both at the same time.
func together(both [2]*host, f func(rank int, h *host) error) (errs [2]error) {
	var all sync.WaitGroup
	for rank := range both {
		all.Add(1)
		go func(rank int) {
			defer all.Done()
			errs[rank] = f(rank, both[rank])
		}(rank)
	}
	all.Wait()
	return errs
}

// train makes the engines, trains three steps and wants the losses of one process.
func train(t *testing.T, both [2]*host) {
	t.Helper()
	alone := openFor(t, tiny, "layout.micro_batch", "2")
	var want, got [3]float64
	for step := range want {
		want[step] = alone.step(step).Loss
	}
	errs := together(both, func(rank int, h *host) error {
		engine, err := h.group.NewEngine(background, h.config)
		if err != nil {
			return err
		}
		defer engine.Close()
		batch := must(engine.NewBatch(plait.Global))
		defer batch.Close()
		for step := range got {
			check(batch.Set("tokens", rows, sequence+1, tokens(step, rows, sequence+1)))
			metrics, err := engine.Step(background, batch)
			if err != nil {
				return err
			}
			if rank == 0 {
				got[step] = metrics.Loss
			}
		}
		return engine.Shutdown(background)
	})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	for step := range want {
		if math.Abs(got[step]-want[step]) > 1e-5 {
			t.Errorf("losses %v, alone %v", got, want)
		}
	}
}

func succeed(t *testing.T, errs [2]error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestTwoGroupsMeetByCards(t *testing.T) {
	both := pair(t)
	for _, from := range both {
		card := must(from.group.Card())
		if len(card) == 0 || len(card) > 4096 {
			t.Errorf("a card of %d bytes", len(card))
		}
		for _, to := range both {
			check(to.group.AddCard(card))
		}
	}
	expect(t, both[0].group.AddCard(nil), plait.InvalidArgument, "argument")
	succeed(t, together(both, func(_ int, h *host) error { return h.group.Commit(background) }))
	train(t, both)
}

// newMemory is a store whose Get waits for the key.
func newMemory() memory {
	var mutex sync.Mutex
	values := map[string][]byte{}
	return memory{
		put: func(key string, value []byte) error {
			mutex.Lock()
			defer mutex.Unlock()
			values[key] = value
			return nil
		},
		get: func(ctx context.Context, key string) ([]byte, error) {
			for {
				mutex.Lock()
				value := values[key]
				mutex.Unlock()
				if value != nil {
					return value, nil
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
		},
	}
}

func TestTwoGroupsMeetByAStore(t *testing.T) {
	both, store := pair(t), newMemory()
	succeed(t, together(both, func(rank int, h *host) error {
		time.Sleep(time.Duration(rank) * 700 * time.Millisecond) // the first one is told "not yet" meanwhile
		runtime.GC()
		return h.group.JoinKV(background, store)
	}))
	train(t, both)
	check(both[0].group.JoinKV(background, store)) // complete: nothing happens
}

func TestTwoGroupsMeetByTCP(t *testing.T) {
	both := pair(t, "network.transport", "tcp")
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	address := listener.Addr().String()
	check(listener.Close())
	succeed(t, together(both, func(_ int, h *host) error { return h.group.JoinTCP(background, address) }))
	train(t, both)
}

func TestAStoreThatFailsIsAHostError(t *testing.T) {
	broken := errors.New("the store is broken")
	for name, one := range map[string]struct {
		get  func(context.Context, string) ([]byte, error)
		code int64
	}{
		"error":  {func(context.Context, string) ([]byte, error) { return nil, broken }, 1},
		"panic":  {func(context.Context, string) ([]byte, error) { panic(broken) }, 2},
		"goexit": {func(context.Context, string) ([]byte, error) { runtime.Goexit(); return nil, nil }, 2},
	} {
		h := pair(t)[1]
		store := newMemory()
		store.get = one.get
		err := h.group.JoinKV(background, store)
		failure := expect(t, err, plait.HostError, "callback")
		var panicked *plait.PanicError
		if failure.HostCode != one.code || errors.As(err, &panicked) != (one.code == 2) ||
			errors.Is(err, broken) != (name == "error") {
			t.Errorf("%s: %+v", name, failure)
		}
		if name == "panic" && (panicked.Value != broken || len(panicked.Stack) == 0) {
			t.Errorf("%+v", panicked)
		}
	}
	h := pair(t)[0]
	store := newMemory()
	store.put = func(string, []byte) error { return broken }
	if err := h.group.JoinKV(background, store); !errors.Is(err, broken) || !errors.Is(err, plait.HostError) {
		t.Error(err)
	}
}

func TestAMeetingEndsWithItsContext(t *testing.T) {
	for name, meet := range map[string]func(*plait.Group, context.Context) error{
		"Commit": func(g *plait.Group, ctx context.Context) error { return g.Commit(ctx) },
		"JoinKV": func(g *plait.Group, ctx context.Context) error { return g.JoinKV(ctx, newMemory()) },
	} {
		both := pair(t)
		check(both[0].group.AddCard(must(both[1].group.Card())))
		ctx, cancel := context.WithCancel(background)
		time.AfterFunc(300*time.Millisecond, cancel)
		err := meet(both[0].group, ctx)
		expect(t, err, plait.Aborted, "aborted")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		expect(t, meet(both[0].group, ctx), plait.Cancelled, "cancelled")
		ctx, cancel = context.WithTimeout(background, 500*time.Millisecond)
		err = meet(both[0].group, ctx)
		cancel()
		if !errors.Is(err, plait.DeadlineExceeded) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		time.AfterFunc(300*time.Millisecond, both[0].group.Abort)
		expect(t, meet(both[0].group, background), plait.Aborted, "aborted")
		time.AfterFunc(300*time.Millisecond, func() { check(both[0].group.Close()) })
		expect(t, meet(both[0].group, background), plait.Aborted, "aborted")
	}
}

func TestAStoreThatDoesNotWaitIsAskedInTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	group, asked, store := pair(t)[0].group, 0, newMemory()
	store.get = func(context.Context, string) ([]byte, error) {
		asked++
		return nil, nil
	}
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(300*time.Millisecond, cancel)
	began := time.Now()
	expect(t, group.JoinKV(ctx, store), plait.Aborted, "aborted")
	if limit := 2 + int(time.Since(began)/time.Millisecond); asked > limit {
		t.Errorf("asked %d times, at most %d was expected", asked, limit)
	}
}

func TestAStopReachesBothProcesses(t *testing.T) {
	both, store := pair(t), newMemory()
	succeed(t, together(both, func(_ int, h *host) error { return h.group.JoinKV(background, store) }))
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(50*time.Millisecond, cancel)
	var last [2]int64
	errs := together(both, func(rank int, h *host) error {
		engine := must(h.group.NewEngine(background, h.config))
		defer engine.Close()
		batch := must(engine.NewBatch(plait.Global))
		defer batch.Close()
		check(batch.Set("tokens", rows, sequence+1, tokens(0, rows, sequence+1)))
		own := background
		if rank == 1 {
			own = ctx
		}
		for {
			metrics, err := engine.Step(own, batch)
			if last[rank] = metrics.Step; err != nil {
				check(engine.Shutdown(background))
				return err
			}
		}
	})
	for rank, err := range errs {
		expect(t, err, plait.Stopped, "stopped")
		if errors.Is(err, context.Canceled) != (rank == 1) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if last[0] != last[1] {
		t.Errorf("stopped at steps %v", last)
	}
}
