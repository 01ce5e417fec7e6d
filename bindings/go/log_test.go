package plait_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"plait.dev/plait"
)

// noisy is a model directory whose reading warns of so many keys that nobody knows.
func noisy(t testing.TB, warnings int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(`{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 32, "vocab_size": 256`)
	for i := 0; i < warnings; i++ {
		fmt.Fprintf(&text, `, "q%d": 0`, i)
	}
	text.WriteString("}")
	directory := t.TempDir()
	check(os.WriteFile(filepath.Join(directory, "config.json"), []byte(text.String()), 0o600))
	return directory
}

func TestLogsAreDrained(t *testing.T) {
	h := openFor(t, tiny)
	var records []plait.LogRecord
	handled := must(h.context.DrainLogs(func(record plait.LogRecord) {
		records = append(records, record)
		must(h.engine.BatchSpec()) // a handler may use the library
	}))
	if handled == 0 || handled != len(records) {
		t.Fatalf("%d records handled, %d seen", handled, len(records))
	}
	last := records[handled-1]
	if last.Level != plait.LogInfo || last.Rank != 0 || last.Subsystem == "" || time.Since(last.Time) > time.Minute ||
		time.Until(last.Time) > time.Second || !strings.HasPrefix(last.Message, "engine ready: ") || last.Dropped != 0 {
		t.Errorf("%+v", last)
	}
	check(h.context.SetLogLevel(plait.LogError))
	check(h.batch.Close()) // it keeps its engine, and a group has one
	check(h.engine.Close())
	h.engine = must(h.group.NewEngine(background, h.config))
	if handled := must(h.context.DrainLogs(func(plait.LogRecord) {})); handled != 0 {
		t.Errorf("%d records above the level", handled)
	}
	expect(t, h.context.SetLogLevel(99), plait.InvalidArgument, "argument")
}

func TestAnOverflowIsCounted(t *testing.T) {
	h := openFor(t, tiny)
	must(h.context.DrainLogs(func(plait.LogRecord) {}))
	const ring, more = 4096, 904
	check(h.config.LoadHF(noisy(t, ring+more)))
	var dropped, kept int64
	must(h.context.DrainLogs(func(record plait.LogRecord) {
		if record.Dropped > 0 {
			dropped += record.Dropped
		} else {
			kept++
		}
	}))
	if dropped != more || kept != ring {
		t.Errorf("%d records dropped and %d kept, of %d", dropped, kept, ring+more)
	}
}

func TestAPanicInAHandlerReachesTheCaller(t *testing.T) {
	h := openFor(t, tiny)
	must(h.context.DrainLogs(func(plait.LogRecord) {}))
	check(h.config.LoadHF(noisy(t, 10)))
	seen := 0
	func() {
		defer func() {
			if value := recover(); value != "enough" {
				t.Errorf("recovered %v", value)
			}
		}()
		_, _ = h.context.DrainLogs(func(plait.LogRecord) {
			if seen++; seen == 4 {
				panic("enough")
			}
		})
	}()
	if left := must(h.context.DrainLogs(func(plait.LogRecord) {})); left != 6 || seen != 4 {
		t.Errorf("%d seen before, %d left", seen, left)
	}
}

func TestAMillionRecordsLeaveNoMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	context := must(plait.NewContext())
	defer context.Close()
	config := must(context.NewConfig())
	defer config.Close()
	const each, wanted, warm = 4000, 1000000, 100000
	directory, seen, before := noisy(t, each), 0, 0
	defer func() {
		if value := recover(); value != "the last one" {
			t.Fatalf("recovered %v after %d records", value, seen)
		}
		debug.FreeOSMemory()
		if grown := resident(t) - before; grown > 8<<20 { // eight bytes a record
			t.Errorf("a million records left %d bytes", grown)
		}
	}()
	for {
		check(config.LoadHF(directory))
		must(context.DrainLogs(func(plait.LogRecord) {
			switch seen++; seen {
			case warm:
				debug.FreeOSMemory()
				before = resident(t)
			case wanted:
				panic("the last one")
			}
		}))
	}
}
