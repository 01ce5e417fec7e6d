package plait_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"plait.dev/plait"
)

const (
	rows     = 4
	sequence = 32
	tiny     = `{"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256,
		"sequence_length": 32}, "train": {"global_batch": 4}, "layout": {"micro_batch": 4},
		"optimizer": {"lr": 1e-2}, "threads": 1}`
	// A step of this one takes a good part of a second, in 64 micro-batches.
	slow = `{"model": {"family": "gpt2", "layers": 4, "hidden": 128, "heads": 2, "vocab_size": 256,
		"sequence_length": 128}, "train": {"global_batch": 64}, "threads": 1}`
)

var background = context.Background()

// host is everything that a training program has.
type host struct {
	context *plait.Context
	config  *plait.Config
	group   *plait.Group
	engine  *plait.Engine
	batch   *plait.Batch
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// open makes a host of one rank with all its handles; set holds keys and values.
func open(json string, set ...string) *host {
	h := &host{context: must(plait.NewContext())}
	h.config = must(h.context.NewConfig())
	check(h.config.Load([]byte(json)))
	for i := 0; i < len(set); i += 2 {
		check(h.config.Set(set[i], set[i+1]))
	}
	h.group = must(h.context.NewGroup(h.config, 0, 1, 1))
	h.engine = must(h.group.NewEngine(background, h.config))
	h.batch = must(h.engine.NewBatch(plait.Global))
	return h
}

// openFor is open for one test.
func openFor(t testing.TB, json string, set ...string) *host {
	t.Helper()
	h := open(json, set...)
	t.Cleanup(h.close)
	return h
}

func (h *host) close() {
	for _, one := range []interface{ Close() error }{h.context, h.config, h.group, h.engine, h.batch} {
		check(one.Close())
	}
}

// fill gives the batch what its engine wants, another text for each seed.
func (h *host) fill(seed int) {
	spec := must(h.engine.BatchSpec())
	check(h.batch.Set("tokens", int(spec.GlobalRows), int(spec.SequenceLength)+1,
		tokens(seed, int(spec.GlobalRows), int(spec.SequenceLength)+1)))
}

func (h *host) step(seed int) plait.Metrics {
	h.fill(seed)
	return must(h.engine.Step(background, h.batch))
}

func tokens(seed, rows, columns int) []int32 {
	values := make([]int32, rows*columns)
	for i := range values {
		values[i] = int32((i*7 + i/columns*13 + seed*31) % 256)
	}
	return values
}

// expect is the *Error in err, which must have the code and the word.
func expect(t testing.TB, err error, code plait.Code, word string) *plait.Error {
	t.Helper()
	var failure *plait.Error
	if !errors.As(err, &failure) {
		t.Fatalf("%v is no *plait.Error", err)
	}
	if !errors.Is(err, code) || failure.Code != code || failure.Word != word {
		t.Fatalf("got %v with word %q, want %v with word %q", err, failure.Word, code, word)
	}
	return failure
}

// resident is the resident memory of this process in bytes.
func resident(t testing.TB) int {
	t.Helper()
	for _, line := range strings.Split(string(must(os.ReadFile("/proc/self/status"))), "\n") {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			return must(strconv.Atoi(fields[1])) * 1024
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// wait is the end of an operation; its report comes back.
func wait(op *plait.Op, err error) []byte {
	check(err)
	defer op.Close()
	check(op.Wait(background))
	return must(op.Result())
}

// memory is a key-value store in this process.
type memory struct {
	put func(key string, value []byte) error
	get func(ctx context.Context, key string) ([]byte, error)
}

func (m memory) Put(_ context.Context, key string, value []byte) error { return m.put(key, value) }

func (m memory) Get(ctx context.Context, key string) ([]byte, error) { return m.get(ctx, key) }

func rootFor(t testing.TB) string { return filepath.Join(t.TempDir(), "root") }
