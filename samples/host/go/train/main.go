// Train trains on the bytes of a file, which it holds in memory. The same program stands in every host language under
// samples/host, and all of them print the same line.
//
//	train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]
//
// Progress goes to stderr; the losses go to stdout, in one line. SIGINT and SIGTERM end the run after the step in
// progress; with --checkpoint the state is saved then, as it is at the end. Exit codes: 0 done, 1 an error, 2 usage,
// 3 stopped.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"plait.dev/plait"
	"plait.dev/samples/host/go/run"
)

func main() {
	settings, ok := run.Parse(os.Args[1:], 2, true)
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]")
		os.Exit(2)
	}
	losses, err := train(settings)
	run.Exit("train", losses, err)
}

func train(settings run.Settings) ([]float64, error) {
	json, err := run.ReadFile(settings.Arguments[0])
	if err != nil {
		return nil, err
	}
	text, err := run.ReadFile(settings.Arguments[1])
	if err != nil {
		return nil, err
	}
	host, err := plait.NewContext()
	if err != nil {
		return nil, err
	}
	defer host.Close()
	config, err := host.NewConfig()
	if err != nil {
		return nil, err
	}
	defer config.Close()
	if err := config.Load(json); err != nil {
		return nil, err
	}
	world := int64(1)
	for _, key := range []string{"layout.tensor", "layout.pipeline", "layout.data"} {
		degree, err := run.Integer(config, key)
		if err != nil {
			return nil, err
		}
		world *= degree
	}
	if settings.Steps == 0 {
		if settings.Steps, err = run.Integer(config, "run.steps"); err != nil {
			return nil, err
		}
	}
	group, err := host.NewGroup(config, 0, int(world), int(world))
	if err != nil {
		return nil, err
	}
	defer group.Close()
	engine, err := group.NewEngine(context.Background(), config)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	return trainAndSave(engine, text, settings)
}

func trainAndSave(engine *plait.Engine, text []byte, settings run.Settings) ([]float64, error) {
	// A signal ends this context, and with it the run, after the step in progress.
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	if settings.IsResumed {
		if _, err := engine.Load(context.Background(), settings.Root); err != nil {
			return nil, err
		}
	}
	losses, outcome := run.Train(ctx, engine, text, settings.Steps)
	if outcome != nil && !errors.Is(outcome, plait.Stopped) {
		return losses, outcome
	}
	if settings.Root != "" {
		if err := save(engine, settings.Root); err != nil {
			return losses, err
		}
	}
	if err := engine.Shutdown(context.Background()); err != nil {
		return losses, err
	}
	return losses, outcome
}

// save waits until the step is durable. The context of the run may have ended: the save has one of its own.
func save(engine *plait.Engine, root string) error {
	op, err := engine.Save(context.Background(), root)
	if err != nil {
		return err
	}
	defer op.Close()
	return op.Wait(context.Background())
}
