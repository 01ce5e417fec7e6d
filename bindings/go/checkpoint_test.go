package plait_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"plait.dev/plait"
)

func TestAnOperationIsPolledWhileStepping(t *testing.T) {
	h := openFor(t, tiny)
	h.step(0)
	op := must(h.engine.Save(background, rootFor(t)))
	defer op.Close()
	progress := must(op.Progress())
	for step := 1; progress.State == plait.OpRunning; step++ {
		h.step(step)
		progress = must(op.Progress())
	}
	if progress.State != plait.OpDone || progress.DoneBytes != progress.TotalBytes || progress.TotalBytes == 0 {
		t.Errorf("%+v", progress)
	}
	check(op.Wait(background))
	var report struct{ Step int64 }
	check(json.Unmarshal(must(op.Result()), &report))
	if report.Step != 1 {
		t.Errorf("saved step %d", report.Step)
	}
	op.Cancel() // too late: nothing happens
	check(op.Wait(background))
}

func TestWaitEndsWithItsContext(t *testing.T) {
	h := openFor(t, tiny)
	big := filepath.Join(t.TempDir(), "text")
	check(os.WriteFile(big, bytes.Repeat([]byte("all work and no play "), 4<<20), 0o600))
	tokenizer := must(h.context.OpenTokenizer("byte", ""))
	defer tokenizer.Close()
	op := must(tokenizer.EncodeFile(nil, big, big+".tokens"))
	defer op.Close()
	ctx, cancel := context.WithTimeout(background, time.Millisecond)
	defer cancel()
	err := op.Wait(ctx)
	failure := expect(t, err, plait.DeadlineExceeded, "deadline")
	if !errors.Is(err, context.DeadlineExceeded) || failure.Disposition != plait.Retry {
		t.Errorf("%+v", failure)
	}
	_, err = op.Result()
	expect(t, err, plait.FailedPrecondition, "busy")
	op.Cancel()
	expect(t, op.Wait(background), plait.Cancelled, "cancelled")
	if progress := must(op.Progress()); progress.State != plait.OpCancelled {
		t.Errorf("%+v", progress)
	}
}

func TestARunGoesOnWhereItWasSaved(t *testing.T) {
	a, root := openFor(t, tiny), rootFor(t)
	a.step(0)
	properties := map[string]any{"integer": int64(1<<53 + 1), "real": 0.1, "text": "🐈"}
	for name, value := range properties {
		check(a.engine.SetProperty(name, value))
	}
	expect(t, a.engine.SetProperty("bool", true), plait.InvalidArgument, "argument")
	wait(a.engine.Save(background, root))
	want := a.step(1)

	b := openFor(t, tiny)
	if report := must(b.engine.Load(background, root)); !bytes.Contains(report, []byte(`"step":1`)) {
		t.Errorf("%s", report)
	}
	if got := b.step(1); got.Step != 2 || math.Float64bits(got.Loss) != math.Float64bits(want.Loss) ||
		math.Float64bits(got.GradNorm) != math.Float64bits(want.GradNorm) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	checkpoint := must(a.context.OpenCheckpoint(root))
	defer checkpoint.Close()
	found := map[string]any{}
	for _, entry := range must(checkpoint.Entries()) {
		if entry.Kind == 0 {
			found[entry.Name] = entry.Value
		}
	}
	if !reflect.DeepEqual(found, properties) {
		t.Errorf("got %v, want %v", found, properties)
	}
	_, err := b.engine.Load(background, root+"/nowhere")
	expect(t, err, plait.NotFound, "no_checkpoint")
}

func TestWeightsAreReadPerturbedWrittenAndReadAgain(t *testing.T) {
	h, root := openFor(t, tiny), rootFor(t)
	h.step(0)
	written := map[string][]float32{}
	for _, entry := range must(h.engine.Tensors()) {
		if entry.Kind != plait.Param {
			continue
		}
		values := make([]float32, entry.Elements)
		check(h.engine.ReadTensor(background, entry.Name, plait.Param, values))
		for i := range values {
			values[i] += float32(i%7) * 1e-3
		}
		check(h.engine.WriteTensor(background, entry.Name, plait.Param, values))
		written[entry.Name] = values
	}
	if len(written) < 20 {
		t.Fatalf("%d tensors", len(written))
	}
	for name, values := range written {
		again := make([]float32, len(values))
		check(h.engine.ReadTensor(background, name, plait.Param, again))
		if !reflect.DeepEqual(values, again) {
			t.Errorf("%s changed on its way", name)
		}
	}
	// What a checkpoint holds was hashed and written by the library: the same bytes.
	wait(h.engine.Save(background, root))
	checkpoint := must(h.context.OpenCheckpoint(root))
	defer checkpoint.Close()
	compared := 0
	for _, entry := range must(checkpoint.Entries()) {
		if entry.Kind == 0 || entry.Kind == plait.Extra {
			continue
		}
		stored := must(checkpoint.Map(entry.Name, entry.Kind))
		live := make([]byte, len(stored))
		check(h.engine.ReadTensorBytes(background, entry.Name, entry.Kind, entry.DType, live))
		if !bytes.Equal(stored, live) {
			t.Errorf("%s of kind %d differs from what was stored", entry.Name, entry.Kind)
		}
		if values, ok := written[entry.Name]; ok && entry.Kind == plait.Param {
			compared++
			for i, value := range values {
				bits := uint32(stored[4*i]) | uint32(stored[4*i+1])<<8 | uint32(stored[4*i+2])<<16 | uint32(stored[4*i+3])<<24
				if math.Float32bits(value) != bits {
					t.Fatalf("%s differs at %d", entry.Name, i)
				}
			}
		}
	}
	if compared != len(written) {
		t.Errorf("%d of %d tensors found in the checkpoint", compared, len(written))
	}
	name := must(checkpoint.Entries())[0].Name
	half := make([]byte, 2)
	expect(t, h.engine.ReadTensorBytes(background, name, plait.Param, plait.BFloat16, half), plait.InvalidArgument,
		"argument")
	expect(t, h.engine.WriteTensorBytes(background, "no such tensor", plait.Param, plait.Float32, half),
		plait.InvalidArgument, "argument")
}

func TestCheckpointsAreVerifiedConvertedAndExported(t *testing.T) {
	h, directory := openFor(t, tiny), t.TempDir()
	root := filepath.Join(directory, "root")
	h.step(0)
	wait(h.engine.Save(background, root))
	checkpoint := must(h.context.OpenCheckpoint(root))
	defer checkpoint.Close()
	if report := must(checkpoint.Report()); !json.Valid(report) || !bytes.Contains(report, []byte(`"layout"`)) {
		t.Errorf("%s", report)
	}
	if report := wait(checkpoint.Verify(true)); !bytes.Contains(report, []byte(`"is_full":true`)) {
		t.Errorf("%s", report)
	}
	check(checkpoint.Set("checkpoint.mmap", "true"))
	layout := must(h.context.NewConfig())
	defer layout.Close()
	check(layout.Load([]byte(tiny)))
	check(layout.Set("layout.tensor", "2"))
	wait(checkpoint.Convert(layout, filepath.Join(directory, "other")))
	wait(checkpoint.ExportHF(nil, filepath.Join(directory, "hf")))
	check(h.config.LoadHF(filepath.Join(directory, "hf")))

	// One byte of the data turned over: what is wrong is named.
	shard := must(filepath.Glob(filepath.Join(root, "step-*", "*.plt")))[0]
	data := must(os.ReadFile(shard))
	data[len(data)/2] ^= 1
	check(os.WriteFile(shard, data, 0o600))
	damaged := must(h.context.OpenCheckpoint(root))
	defer damaged.Close()
	op := must(damaged.Verify(true))
	defer op.Close()
	failure := expect(t, op.Wait(background), plait.DataLoss, "corrupt")
	var details struct{ Damage []map[string]any }
	if check(json.Unmarshal(failure.Details, &details)); len(details.Damage) == 0 {
		t.Errorf("%s", failure.Details)
	}
}

var kindWords = map[plait.Kind]string{plait.Param: "param", plait.Master: "master", plait.Moment1: "moment1",
	plait.Moment2: "moment2", plait.Extra: "extra"}

// The list of entries as Go sees it has the hash of the list that the program plait prints.
func TestEntriesOfALargeManifestAreThoseOfC(t *testing.T) {
	program, err := exec.LookPath("plait")
	if given := os.Getenv("PLAIT"); given != "" {
		program, err = given, nil
	}
	if err != nil {
		t.Skip("the program plait is not installed, and PLAIT does not name it")
	}
	h, root := openFor(t, tiny), rootFor(t)
	long := strings.Repeat("long 🐈 ", 6490) // all of them just below what properties may take together
	for i := 0; i < 16; i++ {
		check(h.engine.SetProperty(fmt.Sprintf("text.%02d", i), fmt.Sprint(i, " ", long)))
	}
	h.step(0)
	wait(h.engine.Save(background, root))
	manifest := must(filepath.Glob(filepath.Join(root, "step-*", "MANIFEST")))[0]
	if size := must(os.Stat(manifest)).Size(); size < 1000000 {
		t.Fatalf("the manifest has %d bytes", size)
	}
	checkpoint := must(h.context.OpenCheckpoint(root))
	defer checkpoint.Close()
	own, other, count := sha256.New(), sha256.New(), 0
	for _, entry := range must(checkpoint.Entries()) {
		if entry.Kind == 0 {
			fmt.Fprintln(own, entry.Name, "property", entry.Value)
		} else {
			fmt.Fprintf(own, "%s %s %v %d %016x\n", entry.Name, kindWords[entry.Kind], entry.Shape, entry.Elements,
				uint64(entry.Digest))
		}
	}
	printed := must(exec.Command(program, "inspect", "--json", root).Output())
	for _, line := range bytes.Split(printed, []byte("\n")) {
		var entry struct {
			Name, Kind, Digest string
			Shape              []int64
			Elements           int64
			Value              any
		}
		if json.Unmarshal(line, &entry) != nil || entry.Kind == "" {
			continue
		}
		if count++; entry.Kind == "property" {
			fmt.Fprintln(other, entry.Name, entry.Kind, entry.Value)
		} else {
			fmt.Fprintf(other, "%s %s %v %d %s\n", entry.Name, entry.Kind, entry.Shape, entry.Elements, entry.Digest)
		}
	}
	if count < 100 || !bytes.Equal(own.Sum(nil), other.Sum(nil)) {
		t.Errorf("%x and %x of %d entries", own.Sum(nil), other.Sum(nil), count)
	}
}
