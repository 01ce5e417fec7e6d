package plait_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"plait.dev/plait"
)

func TestNumbersTextAndBytesSurvive(t *testing.T) {
	integers := []int64{0, -1, 1 << 31, 1<<32 + 5, 1 << 40, 1<<53 + 1, math.MaxInt64, math.MinInt64}
	reals := []float64{0, math.Copysign(0, -1), 0.1, -1e300, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1)}
	written := []string{"", "plain", "emoji 🐈‍⬛ and 漢字 and ß", strings.Repeat("long ", 5000)}
	for i, integer := range integers {
		real, name := reals[i%len(reals)], written[i%len(written)]
		data := []byte(strings.Repeat("\x00\xff\n", i))
		integerBack, realBack, nameBack, dataBack, err := plait.Echo(integer, real, name, data)
		if err != nil {
			t.Fatal(err)
		}
		if integerBack != integer || math.Float64bits(realBack) != math.Float64bits(real) || nameBack != name ||
			!bytes.Equal(dataBack, data) {
			t.Errorf("%d %g %.20q came back as %d %g %.20q", integer, real, name, integerBack, realBack, nameBack)
		}
	}
	if _, real, _, _, err := plait.Echo(0, math.NaN(), "", nil); err != nil || !math.IsNaN(real) {
		t.Errorf("NaN came back as %g, %v", real, err)
	}
}

func TestTextThatIsNoneIsRefused(t *testing.T) {
	config := openFor(t, tiny).config
	_, _, _, _, err := plait.Echo(0, 0, "before\x00after", nil)
	expect(t, err, plait.InvalidArgument, "argument")
	expect(t, config.Set("data.train", "a\x00b"), plait.InvalidArgument, "argument")
	expect(t, config.Set("data.train", "\xff\xfe"), plait.InvalidArgument, "argument")
}

func TestEmojiInValueAndPath(t *testing.T) {
	h := openFor(t, tiny)
	const value = "🚀/漢字/ß.tokens"
	check(h.config.Set("data.train", value))
	if got := must(h.config.Get("data.train")); got != value {
		t.Errorf("got %q, want %q", got, value)
	}
	root := filepath.Join(t.TempDir(), "📁 with a 🐈")
	h.step(0)
	wait(h.engine.Save(background, root))
	if report := must(h.context.ListCheckpoints(root)); !bytes.Contains(report, []byte(`"step"`)) {
		t.Errorf("no step in %s", report)
	}
	check(must(h.context.OpenCheckpoint(root)).Close())
}

func TestNumbersThatDoNotFitAreRefused(t *testing.T) {
	h := openFor(t, tiny)
	_, err := h.context.NewGroup(h.config, 0, 1<<32+1, 1<<32+1)
	expect(t, err, plait.InvalidArgument, "argument")
	_, err = h.context.NewPlan(h.config, 1<<32+1)
	expect(t, err, plait.InvalidArgument, "argument")
	expect(t, h.config.Set("seed", "9223372036854775808"), plait.InvalidArgument, "argument")
	check(h.config.Set("seed", "9223372036854775807"))
	if got := must(h.config.Get("seed")); got != "9223372036854775807" {
		t.Errorf("seed is %s", got)
	}
}

func TestAnErrorHasAllItsParts(t *testing.T) {
	h := openFor(t, tiny)
	failure := expect(t, h.config.Set("model.layer", "2"), plait.InvalidArgument, "argument")
	var details map[string]any
	check(json.Unmarshal(failure.Details, &details))
	if failure.Rank != -1 || failure.Disposition != plait.Unchanged || failure.HostCode != 0 ||
		!strings.HasPrefix(failure.Message, "argument: ") || !strings.Contains(failure.Message, "model.layers") ||
		details["key"] != "model.layer" || failure.Error() != "INVALID_ARGUMENT: "+failure.Message {
		t.Errorf("%+v", failure)
	}
	if errors.Is(failure, plait.NotFound) || errors.Unwrap(failure) != nil {
		t.Errorf("%v matches what it is not", failure)
	}
	wrapped := fmt.Errorf("while setting up: %w", failure)
	if !errors.Is(wrapped, plait.InvalidArgument) {
		t.Error("a wrapped error does not match its code")
	}

	// One that begins on a rank: weights that are no numbers.
	weights := must(h.engine.Tensors())[0]
	values := make([]float32, weights.Elements)
	for i := range values {
		values[i] = float32(math.NaN())
	}
	check(h.engine.WriteTensor(background, weights.Name, weights.Kind, values))
	h.fill(0)
	_, err := h.engine.Step(background, h.batch)
	failure = expect(t, err, plait.OutOfRange, "nonfinite_loss")
	if failure.Rank != 0 || failure.Disposition != plait.Unchanged || failure.Subsystem == "" {
		t.Errorf("%+v", failure)
	}
}

func TestCodesHaveNames(t *testing.T) {
	for code, name := range map[plait.Code]string{plait.OK: "OK", plait.PeerLost: "PEER_LOST",
		plait.Stopped: "STOPPED", plait.DataLoss: "DATA_LOSS", plait.HostError: "HOST_ERROR", 1000: "UNKNOWN"} {
		if code.Error() != name {
			t.Errorf("%d is %s, want %s", code, code.Error(), name)
		}
	}
}

func TestThreadsReadTheirOwnErrors(t *testing.T) {
	context := must(plait.NewContext())
	defer context.Close()
	var all sync.WaitGroup
	for thread := 0; thread < 8; thread++ {
		all.Add(1)
		go func(thread int) {
			defer all.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			config := must(context.NewConfig())
			defer config.Close()
			for i := 0; i < 10000; i++ {
				value := fmt.Sprintf("x%d.%d", thread, i)
				var failure *plait.Error
				if err := config.Set("seed", value); !errors.As(err, &failure) ||
					!strings.Contains(failure.Message, value) || !bytes.Contains(failure.Details, []byte(`"`+value+`"`)) {
					t.Errorf("thread %d reads %v instead of its own error", thread, err)
					return
				}
			}
		}(thread)
	}
	all.Wait()
}

func TestKeysAreDescribed(t *testing.T) {
	h := openFor(t, tiny)
	found := map[string]plait.KeyInfo{}
	for _, key := range must(h.config.Keys()) {
		if key.Key == "" || key.Doc == "" || key.Type == "" {
			t.Errorf("%+v", key)
		}
		found[key.Key] = key
	}
	if len(found) < 50 || !found["threads"].IsLocal || !found["run.steps"].IsHost ||
		!found["generate.temperature"].IsMutable || found["layout.tensor"].Default != "1" ||
		!strings.Contains(found["device"].Choices, "cpu") || found["model.layers"].Resume != "same" {
		t.Errorf("%d keys, threads %+v", len(found), found["threads"])
	}
	check(h.config.Reset("optimizer.lr"))
	if !bytes.Contains(must(h.config.Dump(true)), []byte(`"optimizer.lr"`)) ||
		bytes.Contains(must(h.config.Dump(false)), []byte(`"optimizer.lr"`)) {
		t.Error("a complete dump has keys that were not set, another has not")
	}
	check(h.config.Check())
	check(h.config.Set("model.heads", "5"))
	expect(t, h.config.Check(), plait.InvalidArgument, "argument")
}

func TestTheLibrarySaysWhatItIs(t *testing.T) {
	if major, minor, _ := plait.Version(); major != 0 || minor != 1 {
		t.Errorf("version %d.%d", major, minor)
	}
	if commit, ok := plait.BuildInfo("commit"); !ok || commit == "" {
		t.Error("no commit")
	}
	if _, ok := plait.BuildInfo("no such key"); ok {
		t.Error("an unknown key has a value")
	}
}

func TestPlans(t *testing.T) {
	h := openFor(t, tiny)
	plan := must(h.context.NewPlan(h.config, 1))
	defer plan.Close()
	info := must(plan.At(0))
	if plan.Count() != 1 || !info.IsFeasible || info.Tensor != 1 || must(plan.RankAt(0, 0)).WeightBytes == 0 {
		t.Errorf("%+v", info)
	}
	if report := string(must(plan.Report(0, "estimate"))); !strings.Contains(report, "step_seconds") {
		t.Error(report)
	}
	check(plan.Apply(0, h.config))
	_, err := plan.At(1)
	expect(t, err, plait.InvalidArgument, "argument")
}
