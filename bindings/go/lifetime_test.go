package plait_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"plait.dev/plait"
)

type closer interface{ Close() error }

// everything is one live handle of each kind.
func everything(t testing.TB) []closer {
	t.Helper()
	directory := t.TempDir()
	file := filepath.Join(directory, "tokens")
	check(os.WriteFile(file, make([]byte, 4000), 0o600))
	h := open(tiny, "data.train", file)
	h.step(0)
	op := must(h.engine.Save(background, filepath.Join(directory, "root")))
	check(op.Wait(background))
	return []closer{h.context, h.config, must(h.context.NewPlan(h.config, 1)), h.group, h.engine, h.batch, op,
		must(h.context.OpenDataset(h.config, "train")),
		must(h.context.OpenTokenizer("byte", "")), must(h.context.OpenCheckpoint(filepath.Join(directory, "root")))}
}

// permutations calls f with every order of n numbers.
func permutations(n int, f func(order []int)) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var swap func(k int)
	swap = func(k int) {
		if k == n {
			f(order)
			return
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			swap(k + 1)
			order[k], order[i] = order[i], order[k]
		}
	}
	swap(0)
}

func TestCloseInEveryOrderAndTwice(t *testing.T) {
	permutations(5, func(order []int) {
		h := open(tiny)
		handles := []closer{h.context, h.config, h.group, h.engine, h.batch}
		for _, i := range order {
			check(handles[i].Close())
			check(handles[i].Close())
		}
	})
	handles := everything(t)
	for i := len(handles); i > 0; i-- { // and some orders of the rest
		check(handles[i-1].Close())
	}
	for _, one := range everything(t) {
		check(one.Close())
		check(one.Close())
	}
}

// argument is a value that a method takes.
func argument(of reflect.Type) reflect.Value {
	for _, value := range []any{1, int64(1), "a", []int32{1}, []float32{1}, []byte("a"), time.Second,
		func(plait.LogRecord) {}} {
		if reflect.TypeOf(value) == of {
			return reflect.ValueOf(value)
		}
	}
	if of == reflect.TypeOf((*context.Context)(nil)).Elem() {
		return reflect.ValueOf(background)
	}
	return reflect.Zero(of)
}

// callAll calls every method but Close and wants ErrClosed of all that return an error.
func callAll(t *testing.T, on any) {
	t.Helper()
	value := reflect.ValueOf(on)
	for i := 0; i < value.NumMethod(); i++ {
		method, name := value.Method(i), value.Type().Method(i).Name
		if name == "Close" {
			continue
		}
		arguments := make([]reflect.Value, method.Type().NumIn())
		for j := range arguments {
			arguments[j] = argument(method.Type().In(j))
		}
		if value.Type() == reflect.TypeOf(&plait.Engine{}) && name == "SetProperty" {
			arguments[1] = reflect.ValueOf(any(int64(1)))
		}
		results := method.Call(arguments)
		if len(results) == 0 {
			continue
		}
		if err, ok := results[len(results)-1].Interface().(error); ok &&
			!(errors.Is(err, plait.ErrClosed) && errors.Is(err, plait.InvalidArgument)) {
			t.Errorf("%T.%s: %v", on, name, err)
		} else if !ok && method.Type().Out(len(results)-1).Name() == "error" {
			t.Errorf("%T.%s succeeds", on, name)
		}
	}
}

func TestUseAfterCloseIsAnError(t *testing.T) {
	for _, one := range everything(t) {
		check(one.Close())
		callAll(t, one)
		check(one.Close())
	}
	for _, zero := range []closer{&plait.Context{}, &plait.Config{}, &plait.Plan{}, &plait.Group{}, &plait.Engine{},
		&plait.Batch{}, &plait.Dataset{}, &plait.Tokenizer{}, &plait.Checkpoint{}, &plait.Op{}} {
		callAll(t, zero)
		check(zero.Close())
	}
	h := openFor(t, tiny)
	h.fill(0)
	check(h.batch.Close())
	_, err := h.engine.Step(background, h.batch)
	expect(t, err, plait.InvalidArgument, "bad_handle")
	_, err = h.group.NewEngine(background, nil)
	expect(t, err, plait.InvalidArgument, "bad_handle")
}

func TestCloseDuringAStepEndsIt(t *testing.T) {
	h := openFor(t, slow)
	h.fill(0)
	ended := make(chan error)
	go func() {
		_, err := h.engine.Step(background, h.batch)
		ended <- err
	}()
	waitUntilRunning(h.engine)
	check(h.engine.Close())
	check(h.batch.Close())
	check(h.group.Close())
	check(h.context.Close())
	expect(t, <-ended, plait.Aborted, "aborted")
	_, err := h.engine.Step(background, h.batch)
	expect(t, err, plait.InvalidArgument, "bad_handle")
}

func waitUntilRunning(engine *plait.Engine) {
	for engine.State() != plait.StateRunning {
		time.Sleep(100 * time.Microsecond)
	}
}

func TestClosesAndCallsFromManyGoroutines(t *testing.T) {
	for round := 0; round < 20; round++ {
		h := open(tiny)
		h.fill(round)
		var all sync.WaitGroup
		for i := 0; i < 4; i++ {
			all.Add(2)
			go func() {
				defer all.Done()
				for err := error(nil); !errors.Is(err, plait.ErrClosed); {
					if _, err = h.engine.Step(background, h.batch); err == nil {
						_, err = h.engine.Report("counters")
					}
				}
			}()
			go func() {
				defer all.Done()
				time.Sleep(time.Duration(round) * 100 * time.Microsecond)
				h.close()
			}()
		}
		all.Wait()
	}
}

func TestOverlappingCallsAreBusy(t *testing.T) {
	h := openFor(t, slow)
	h.fill(0)
	ended := make(chan error)
	go func() {
		_, err := h.engine.Step(background, h.batch)
		ended <- err
	}()
	waitUntilRunning(h.engine)
	_, err := h.engine.Step(background, h.batch)
	expect(t, err, plait.FailedPrecondition, "busy")
	if _, err := h.engine.Report("counters"); err != nil {
		t.Error(err)
	}
	h.engine.Abort()
	expect(t, <-ended, plait.Aborted, "aborted")
}

func TestAThousandEnginesLeaveNoMemory(t *testing.T) {
	cycle := func() {
		h := open(tiny)
		h.fill(0)
		h.close()
	}
	for i := 0; i < 200; i++ {
		cycle()
	}
	runtime.GC()
	before := resident(t)
	for i := 0; i < 1000; i++ {
		cycle()
	}
	runtime.GC()
	if grown := resident(t) - before; grown > 8<<20 {
		t.Errorf("1000 engines left %d bytes", grown)
	}
}

func TestTheCollectorFreesNothing(t *testing.T) {
	h := open(tiny)
	h.step(0)
	batch := must(h.engine.NewBatch(plait.Global))
	mapped := must(batch.Map("tokens", rows, sequence+1))
	copy(mapped, tokens(3, rows, sequence+1))
	everything(t) // dropped
	batch, h = nil, nil
	for i := 0; i < 5; i++ {
		runtime.GC()
	}
	for i, want := range tokens(3, rows, sequence+1) {
		if mapped[i] != want {
			t.Fatalf("the memory of a batch that nobody closed has changed at %d", i)
		}
	}
	next := openFor(t, tiny)
	next.step(0)
}
