// Pair is one of two processes that train together, one rank each, on two halves of every batch. They find each other
// by cards, which they leave in a directory.
//
//	pair CONFIG TEXT RANK DIRECTORY [--steps N]
//
// RANK is 0 or 1. Output, signals and exit codes are those of train; both processes print the same line.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"plait.dev/plait"
	"plait.dev/samples/host/go/run"
)

const patience = 30 * time.Second // with the other process

func main() {
	settings, ok := run.Parse(os.Args[1:], 4, false)
	rank := -1
	if ok && settings.Arguments[2] == "0" {
		rank = 0
	} else if ok && settings.Arguments[2] == "1" {
		rank = 1
	}
	if rank < 0 {
		fmt.Fprintln(os.Stderr, "usage: pair CONFIG TEXT RANK DIRECTORY [--steps N]")
		os.Exit(2)
	}
	losses, err := train(settings, rank)
	run.Exit("pair", losses, err)
}

func train(settings run.Settings, rank int) ([]float64, error) {
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
	for key, value := range map[string]string{"layout.tensor": "1", "layout.pipeline": "1", "layout.data": "2"} {
		if err := config.Set(key, value); err != nil {
			return nil, err
		}
	}
	if settings.Steps == 0 {
		if settings.Steps, err = run.Integer(config, "run.steps"); err != nil {
			return nil, err
		}
	}
	group, err := host.NewGroup(config, rank, 1, 2)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	if err := meet(group, rank, settings.Arguments[3]); err != nil {
		return nil, err
	}
	engine, err := group.NewEngine(context.Background(), config)
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	losses, outcome := run.Train(ctx, engine, text, settings.Steps)
	if outcome != nil && !errors.Is(outcome, plait.Stopped) {
		return losses, outcome
	}
	if err := engine.Shutdown(context.Background()); err != nil {
		return losses, err
	}
	return losses, outcome
}

// meet exchanges cards through the directory and connects. A card appears there whole or not at all.
func meet(group *plait.Group, rank int, directory string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	card, err := group.Card()
	if err != nil {
		return err
	}
	path := func(rank int) string { return filepath.Join(directory, fmt.Sprintf("card.%d", rank)) }
	draft := path(rank) + ".draft"
	if err := os.WriteFile(draft, card, 0o600); err != nil {
		return err
	}
	if err := os.Rename(draft, path(rank)); err != nil {
		return err
	}
	other, err := await(ctx, path(1-rank))
	if err != nil {
		return err
	}
	for _, one := range [][]byte{card, other} {
		if err := group.AddCard(one); err != nil {
			return err
		}
	}
	return group.Commit(ctx)
}

// await is the content of a file that another process is about to make.
func await(ctx context.Context, path string) ([]byte, error) {
	for {
		data, err := os.ReadFile(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return data, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s did not appear within %v", path, patience)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
