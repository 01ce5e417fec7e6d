// Abuse is a careless host: its log handler panics, it drops handles, closes them twice and calls them after that. All
// of it ends in a value that Go knows, none in a crash, and memory stays flat over a thousand engines. Prints TAP.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"plait.dev/plait"
)

const (
	tiny = `{"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256, "sequence_length": 32},
		"train": {"global_batch": 4}, "layout": {"micro_batch": 4}, "optimizer": {"lr": 1e-2}, "threads": 1}`
	rows, columns = 4, 33
)

var background = context.Background()

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

type host struct {
	context *plait.Context
	config  *plait.Config
	group   *plait.Group
	engine  *plait.Engine
	batch   *plait.Batch
}

func open() *host {
	h := &host{context: must(plait.NewContext())}
	h.config = must(h.context.NewConfig())
	check(h.config.Load([]byte(tiny)))
	h.group = must(h.context.NewGroup(h.config, 0, 1, 1))
	h.engine = must(h.group.NewEngine(background, h.config))
	h.batch = must(h.engine.NewBatch(plait.Global))
	return h
}

func (h *host) step() plait.Metrics {
	tokens := must(h.batch.Map("tokens", rows, columns))
	for i := range tokens {
		tokens[i] = int32(i*7) % 256
	}
	return must(h.engine.Step(background, h.batch))
}

func (h *host) close() {
	for _, one := range []interface{ Close() error }{h.batch, h.engine, h.group, h.config, h.context} {
		check(one.Close())
		check(one.Close())
	}
}

// panics is the value with which f panics, nil where it does not.
func panics(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

func logHandlerPanics() error {
	h := open()
	defer h.close()
	value := panics(func() { _, _ = h.context.DrainLogs(func(plait.LogRecord) { panic("not today") }) })
	if value != "not today" {
		return fmt.Errorf("recovered %v", value)
	}
	if metrics := h.step(); metrics.Step != 1 {
		return fmt.Errorf("step %d after the panic", metrics.Step)
	}
	return nil
}

func handlesAreDropped() error {
	directory := must(os.MkdirTemp("", "abuse"))
	defer os.RemoveAll(directory)
	for i := 0; i < 10; i++ {
		h := open()
		h.step()
		root := filepath.Join(directory, strconv.Itoa(i))
		check(must(h.engine.Save(background, root)).Wait(background))
		must(h.context.OpenCheckpoint(root))
		must(h.context.OpenTokenizer("byte", ""))
		runtime.GC()
	}
	h := open()
	defer h.close()
	if metrics := h.step(); metrics.Step != 1 {
		return fmt.Errorf("step %d", metrics.Step)
	}
	return nil
}

func callsAfterClose() error {
	h := open()
	h.step()
	h.close()
	_, step := h.engine.Step(background, h.batch)
	_, spec := h.engine.BatchSpec()
	_, save := h.engine.Save(background, "nowhere")
	_, mapped := h.batch.Map("tokens", rows, columns)
	_, card := h.group.Card()
	_, config := h.context.NewConfig()
	_, drained := h.context.DrainLogs(func(plait.LogRecord) {})
	h.engine.RequestStop()
	h.engine.Abort()
	h.group.Abort()
	for i, err := range []error{step, spec, save, mapped, card, config, drained, h.config.Check(),
		h.engine.Shutdown(background), h.group.Commit(background), h.batch.Remove("tokens")} {
		if !errors.Is(err, plait.ErrClosed) || !errors.Is(err, plait.InvalidArgument) {
			return fmt.Errorf("call %d after Close: %v", i, err)
		}
	}
	return nil
}

func closeDuringAStep() error {
	for i := 0; i < 20; i++ {
		h := open()
		h.step()
		ended := make(chan error)
		go func() {
			for {
				if _, err := h.engine.Step(background, h.batch); err != nil {
					ended <- err
					return
				}
			}
		}()
		h.close()
		if err := <-ended; !errors.Is(err, plait.ErrClosed) && !errors.Is(err, plait.Aborted) {
			return err
		}
	}
	return nil
}

// resident is the resident memory of this process in bytes.
func resident() int {
	for _, line := range strings.Split(string(must(os.ReadFile("/proc/self/status"))), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			return must(strconv.Atoi(fields[1])) * 1024
		}
	}
	panic("no VmRSS")
}

func aThousandEngines() error {
	cycles := func(count int) int {
		for i := 0; i < count; i++ {
			h := open()
			h.step()
			h.close()
		}
		runtime.GC()
		return resident()
	}
	before := cycles(200)
	if grown := cycles(1000) - before; grown > 4<<20 {
		return fmt.Errorf("resident memory grew by %d bytes", grown)
	}
	return nil
}

func main() {
	code := 0
	for _, one := range []struct {
		what string
		run  func() error
	}{
		{"a panic in a log handler is recovered by the host, and training goes on", logHandlerPanics},
		{"dropped handles do no harm", handlesAreDropped},
		{"calls after Close are errors", callsAfterClose},
		{"a Close during a step ends it", closeDuringAStep},
		{"1,000 engines leave resident memory flat", aThousandEngines},
	} {
		var err error
		if value := panics(func() { err = one.run() }); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
		if err != nil {
			fmt.Printf("not ok - %s\n# %v\n", one.what, err)
			code = 1
			continue
		}
		fmt.Printf("ok - %s\n", one.what)
	}
	os.Exit(code)
}
