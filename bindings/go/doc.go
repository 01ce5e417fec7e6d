// Package plait trains GPT-style Transformers inside a Go program. It is a thin layer over the C ABI of
// libplait: the same names, the habits of Go.
//
// # A host's life
//
// A [Context] comes first, everything else hangs on it. A [Config] holds keys, a [Group] says which ranks this
// process drives, an [Engine] trains, a [Batch] feeds it:
//
//	plaitContext, err := plait.NewContext()
//	config, err := plaitContext.NewConfig()
//	err = config.Load(json)
//	group, err := plaitContext.NewGroup(config, 0, 1, 1)
//	engine, err := group.NewEngine(ctx, config)
//	batch, err := engine.NewBatch(plait.Global)
//	for !errors.Is(err, plait.Stopped) {
//		err = batch.Set("tokens", rows, sequence+1, tokens)
//		metrics, err = engine.Step(ctx, batch)
//	}
//
// # Handles
//
// What a constructor returns owns memory of the library until Close. Close may come in any order, more than once
// and while a call runs: it ends that call, and the memory goes when the call has returned. A call on a closed
// handle is an error that matches [InvalidArgument] and [ErrClosed]. The garbage collector frees nothing: training
// state does not depend on when it runs.
//
// # Errors
//
// Every error is a *[Error]; errors.As finds it, errors.Is compares it with a [Code]:
//
//	if errors.Is(err, plait.PeerLost) { … }
//
// # Stops and cancellation
//
// That training was asked to stop is an error value, [Stopped], as io.EOF is one: the call that returns it has
// done its work, its metrics are valid and the state can be saved. A stop is asked for by [Engine.RequestStop] or
// by the end of the context.Context of a call; errors.Is(err, context.Canceled) then holds as well. All processes
// of a group stop at the same step.
//
// How a call takes its context.Context depends on its kind:
//
//   - Step, ForwardBackward, OptimizerStep, Evaluate, Score, Generate and Load are stopped by its end, be it a
//     cancellation or a deadline. One that begins with a context which has ended asks for the stop and takes part,
//     since the other processes of the group are in that call. A stop that comes too late for a call is reported
//     by the next one. Where [Engine.SetStopGrace] has set a time and the call has not returned so long after the
//     end, it is aborted, and the engine is lost.
//   - Commit, JoinTCP, JoinKV and Measure are aborted by a cancellation; a deadline is their time limit.
//   - NewEngine, AttachDataset, Save, Shutdown and those that read or write tensors take the deadline as their
//     time limit, past which the engine is lost. They do not begin with a context that has ended, and a
//     cancellation does not end them: give the save after a stop a context of its own.
//   - Op.Wait ends waiting; the operation runs on.
//
// # Goroutines
//
// One goroutine at a time uses a handle, else the call is [FailedPrecondition] with the word busy. Any goroutine
// may, at any time, call Close, RequestStop, Abort, State, Counter, Report, Tensors, the methods of [Context], [Op],
// [Dataset] and [Tokenizer]. Nothing is tied to an operating-system thread, and no thread of the library ever runs
// Go code: log records are drained, and a [KV] is asked on the goroutine that waits in JoinKV.
package plait

// #cgo pkg-config: plait
// #include <plait/plait.h>
import "C"

// Version is the version of the library that is loaded.
func Version() (major, minor, patch int) {
	version := int(C.plait_version())
	return version / 1000000, version / 1000 % 1000, version % 1000
}

// BuildInfo is a fact about the build: "commit", "compiler", "features", or "feature.<name>", which is "yes" or
// "not built". It is false for a key that the library does not know.
func BuildInfo(key string) (string, bool) {
	name, err := text(key)
	if err != nil {
		return "", false
	}
	value := C.plait_build_info(name)
	return C.GoString(value), value != nil
}
