package plait_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"plait.dev/plait"
)

func TestMapIsFilledInPlace(t *testing.T) {
	a, b := openFor(t, tiny), openFor(t, tiny)
	var before *int32
	for step := 0; step < 3; step++ {
		values := must(a.batch.Map("tokens", rows, sequence+1))
		if len(values) != rows*(sequence+1) || uintptr(unsafe.Pointer(&values[0]))%64 != 0 {
			t.Fatalf("%d values at %p", len(values), values)
		}
		if before != nil && before != &values[0] {
			t.Error("the memory has moved")
		}
		before = &values[0]
		copy(values, tokens(step, rows, sequence+1))
		mapped := must(a.engine.Step(background, a.batch))
		if copied := b.step(step); math.Float64bits(copied.Loss) != math.Float64bits(mapped.Loss) {
			t.Errorf("loss %g by Map, %g by Set", mapped.Loss, copied.Loss)
		}
	}
	_, err := a.batch.Map("tokens", 1<<40, 1<<40)
	expect(t, err, plait.ResourceExhausted, "too_large")
}

func TestSetCopies(t *testing.T) {
	a, b := openFor(t, tiny), openFor(t, tiny)
	values := tokens(0, rows, sequence+1)
	check(a.batch.Set("tokens", rows, sequence+1, values))
	for i := range values {
		values[i] = -7
	}
	if metrics := must(a.engine.Step(background, a.batch)); metrics.Loss != b.step(0).Loss {
		t.Errorf("loss %g", metrics.Loss)
	}
	for _, bad := range [][2]int{{rows, sequence}, {0, 0}, {rows + 1, sequence + 1}, {-1, -1}, {1 << 62, 4}} {
		expect(t, a.batch.Set("tokens", bad[0], bad[1], values), plait.InvalidArgument, "argument")
	}
	check(a.batch.Set("tokens", rows, sequence+1, values))
	_, err := a.engine.Step(background, a.batch)
	expect(t, err, plait.InvalidArgument, "token_range")
	check(a.batch.Remove("tokens"))
	_, err = a.engine.Step(background, a.batch)
	expect(t, err, plait.InvalidArgument, "argument")
}

// Slices may be parts of objects that hold pointers: what C gets is the slice.
func TestPartsOfObjectsWithPointersGoToC(t *testing.T) {
	type mixed struct {
		next   *mixed
		bytes  [1 << 15]byte
		floats [rows * sequence]float32
		ids    [rows * (sequence + 1)]int32
	}
	h, m := openFor(t, tiny), &mixed{next: &mixed{}}
	check(h.config.Load(m.bytes[:copy(m.bytes[:], tiny)]))
	copy(m.ids[:], tokens(0, rows, sequence+1))
	check(h.batch.Set("tokens", rows, sequence+1, m.ids[:]))
	must(h.engine.Step(background, h.batch))
	check(h.engine.Score(background, h.batch, m.floats[:]))
	must(h.engine.Generate(background, m.ids[:3], 2))
	name := must(h.engine.Tensors())[0]
	data := m.bytes[:4*name.Elements]
	check(h.engine.ReadTensorBytes(background, name.Name, name.Kind, plait.Float32, data))
	check(h.engine.WriteTensorBytes(background, name.Name, name.Kind, plait.Float32, data))
	check(h.engine.ReadTensor(background, name.Name, name.Kind, nil))
	tokenizer := must(h.context.OpenTokenizer("byte", ""))
	defer tokenizer.Close()
	if ids := must(tokenizer.Encode(m.bytes[:9])); len(ids) != 9 || len(must(tokenizer.Decode(m.ids[:3]))) != 3 {
		t.Errorf("%v", ids)
	}
	if ids := must(tokenizer.Encode(nil)); len(ids) != 0 {
		t.Errorf("%v of no text", ids)
	}
	expect(t, h.group.AddCard(m.bytes[:10]), plait.InvalidArgument, "argument")
	_, _, _, echoed, err := plait.Echo(1, 1, "", m.bytes[:100])
	if check(err); len(echoed) != 100 {
		t.Errorf("%d bytes came back", len(echoed))
	}
}

func TestMetrics(t *testing.T) {
	h := openFor(t, tiny)
	h.step(0)
	m := h.step(1)
	if !m.HasStep || !m.HasTime || !m.HasMemory || m.Step != 2 || m.SamplesTotal != 2*rows ||
		m.TokensTotal != 2*rows*sequence || m.Tokens != rows*sequence || m.Targets != rows*sequence || m.Skipped ||
		m.Loss < 3 || m.Loss > 6 || m.GradNorm <= 0 || m.LR != 1e-2 || m.StepSeconds <= 0 || m.TokensPerSecond <= 0 ||
		m.MemoryBytes <= 0 {
		t.Errorf("%+v", m)
	}
	spec := must(h.engine.BatchSpec())
	want := plait.BatchSpec{GlobalRows: rows, LocalRows: rows, SpanCount: 1, SequenceLength: sequence, VocabSize: 256,
		FirstSample: 2 * rows, NeedsTokens: true, NeedsTargets: true, NeedsDocuments: true}
	if spec != want {
		t.Errorf("got %+v, want %+v", spec, want)
	}
	if span := must(h.engine.BatchSpan(8, 0)); span != (plait.Span{First: 0, Count: 8}) {
		t.Errorf("%+v", span)
	}
}

func TestStopFromAnotherGoroutine(t *testing.T) {
	h := openFor(t, tiny)
	go func() {
		time.Sleep(20 * time.Millisecond)
		h.engine.RequestStop()
	}()
	var metrics plait.Metrics
	var err error
	for err == nil {
		h.fill(0)
		metrics, err = h.engine.Step(background, h.batch)
	}
	failure := expect(t, err, plait.Stopped, "stopped")
	if metrics.Step == 0 || !metrics.HasStep || failure.Disposition != 0 {
		t.Errorf("%+v, %+v", metrics, failure)
	}
	if next := h.step(0); next.Step != metrics.Step+1 { // the stop is over, the state is whole
		t.Errorf("step %d after step %d", next.Step, metrics.Step)
	}
}

func TestAbortFromAnotherGoroutine(t *testing.T) {
	h := openFor(t, slow)
	h.fill(0)
	go func() {
		waitUntilRunning(h.engine)
		h.engine.Abort()
	}()
	_, err := h.engine.Step(background, h.batch)
	failure := expect(t, err, plait.Aborted, "aborted")
	if failure.Disposition != plait.EngineLost || h.engine.State() != plait.StateLost {
		t.Errorf("%+v in state %d", failure, h.engine.State())
	}
	if _, err := h.engine.Report("operations"); err != nil {
		t.Error(err)
	}
	_, err = h.engine.Step(background, h.batch)
	expect(t, err, plait.Aborted, "aborted")
	check(h.batch.Close()) // it keeps its engine, and a group has one
	check(h.engine.Close())
	h.engine = must(h.group.NewEngine(background, h.config)) // the process lives on
}

func TestCancellingTheContextStopsTraining(t *testing.T) {
	h := openFor(t, tiny)
	ctx, cancel := context.WithCancel(background)
	go func() {
		time.Sleep(20 * time.Millisecond)
		cancel()
	}()
	var metrics plait.Metrics
	var err error
	for err == nil {
		h.fill(0)
		metrics, err = h.engine.Step(ctx, h.batch)
	}
	expect(t, err, plait.Stopped, "stopped")
	if !errors.Is(err, context.Canceled) || metrics.Step == 0 {
		t.Errorf("%v at step %d", err, metrics.Step)
	}
	_, err = h.engine.Save(ctx, rootFor(t))
	expect(t, err, plait.Cancelled, "cancelled")
	wait(h.engine.Save(background, rootFor(t)))
}

func TestAContextThatHasEndedTakesPartInAStep(t *testing.T) {
	h := openFor(t, tiny)
	ctx, cancel := context.WithTimeout(background, 0)
	defer cancel()
	h.fill(0)
	metrics, err := h.engine.Step(ctx, h.batch)
	expect(t, err, plait.Stopped, "stopped")
	if !errors.Is(err, context.DeadlineExceeded) || metrics.Step != 1 {
		t.Errorf("%v at step %d", err, metrics.Step)
	}
	_, err = h.engine.Evaluate(ctx, h.batch)
	expect(t, err, plait.Stopped, "stopped")
	_, err = h.engine.Generate(ctx, []int32{1, 2}, 4)
	expect(t, err, plait.Stopped, "stopped")
	_, err = h.group.NewEngine(ctx, h.config)
	expect(t, err, plait.DeadlineExceeded, "deadline")
	if h.step(1).Step != 2 {
		t.Error("a stop of Evaluate was left behind")
	}
}

func TestAStopThatTakesTooLongIsAnAbort(t *testing.T) {
	h := openFor(t, slow)
	h.engine.SetStopGrace(time.Millisecond)
	h.fill(0)
	ctx, cancel := context.WithCancel(background)
	go func() {
		waitUntilRunning(h.engine)
		cancel()
	}()
	_, err := h.engine.Step(ctx, h.batch)
	expect(t, err, plait.Aborted, "aborted")
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestPartsOfAStepEqualTheWhole(t *testing.T) {
	a, b := openFor(t, tiny, "layout.micro_batch", "1"), openFor(t, tiny, "layout.micro_batch", "1")
	values := tokens(0, rows, sequence+1)
	for half := 0; half < 2; half++ {
		check(a.batch.Set("tokens", rows/2, sequence+1, values[half*len(values)/2:(half+1)*len(values)/2]))
		must(a.engine.ForwardBackward(background, a.batch))
	}
	metrics := must(a.engine.OptimizerStep(background))
	if whole := b.step(0); math.Float64bits(metrics.Loss) != math.Float64bits(whole.Loss) ||
		math.Float64bits(metrics.GradNorm) != math.Float64bits(whole.GradNorm) {
		t.Errorf("%g and %g", metrics.Loss, whole.Loss)
	}
}

func TestEvaluateScoreAndGenerate(t *testing.T) {
	h := openFor(t, tiny)
	h.step(0)
	h.fill(1)
	loss := must(h.engine.Evaluate(background, h.batch)).Loss
	losses := make([]float32, rows*sequence)
	check(h.engine.Score(background, h.batch, losses))
	sum := 0.0
	for _, one := range losses {
		sum += float64(one)
	}
	if mean := sum / float64(len(losses)); math.Abs(mean-loss) > 1e-4 {
		t.Errorf("mean score %g, loss %g", mean, loss)
	}
	expect(t, h.engine.Score(background, h.batch, losses[1:]), plait.InvalidArgument, "argument")
	expect(t, h.engine.Score(background, nil, losses), plait.InvalidArgument, "bad_handle")
	check(h.engine.Set("generate.temperature", "0"))
	made := must(h.engine.Generate(background, []int32{1, 2, 3}, 5))
	if again := must(h.engine.Generate(background, []int32{1, 2, 3}, 5)); len(made) != 5 ||
		!reflect.DeepEqual(made, again) {
		t.Errorf("%v and %v", made, again)
	}
	check(h.engine.Reset("generate.temperature"))
	if value := must(h.engine.Counter("steps")); value != 1 {
		t.Errorf("%g steps", value)
	}
	check(h.engine.Shutdown(background))
	if h.engine.State() != plait.StateClosed {
		t.Error("not closed")
	}
}

func TestDatasetAndTokenizer(t *testing.T) {
	h := openFor(t, tiny)
	tokenizer := must(h.context.OpenTokenizer("byte", ""))
	defer tokenizer.Close()
	directory := t.TempDir()
	input, output := filepath.Join(directory, "text"), filepath.Join(directory, "tokens")
	written := []byte("In the beginning 🐈 ")
	ids := must(tokenizer.Encode(written))
	if string(must(tokenizer.Decode(ids))) != string(written) || len(ids) != len(written) || tokenizer.VocabSize() != 256 {
		t.Errorf("%v", ids)
	}
	var file []byte
	for len(file) < 4000 {
		file = append(file, written...)
	}
	check(os.WriteFile(input, file, 0o600))
	wait(tokenizer.EncodeFile(nil, input, output))
	check(h.config.Set("data.train", output))
	dataset := must(h.context.OpenDataset(h.config, "train"))
	info := must(dataset.Describe())
	if info.Tokens != int64(len(file)) || info.SequenceLength != sequence || info.Samples == 0 || info.Fingerprint == 0 {
		t.Errorf("%+v", info)
	}
	samples := must(dataset.Read("tokens", 0, rows))
	check(h.engine.AttachDataset(background, "train", dataset))
	check(dataset.Close())
	drawn := must(h.engine.Step(background, nil))
	other := openFor(t, tiny)
	check(other.batch.Set("tokens", rows, sequence+1, samples))
	if fed := must(other.engine.Step(background, other.batch)); fed.Loss != drawn.Loss {
		t.Errorf("loss %g and %g", fed.Loss, drawn.Loss)
	}
	check(h.engine.AttachDataset(background, "train", nil))
}

func BenchmarkCallThatDoesNothing(b *testing.B) {
	h := openFor(b, tiny)
	for i := 0; i < b.N; i++ {
		h.engine.State()
	}
}
