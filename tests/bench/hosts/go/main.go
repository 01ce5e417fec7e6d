// Calls says what a call costs in Go, and where a batch is filled; see ../calls.c.
//
//	calls CONFIG time CALLS TURNS
//	calls CONFIG feed STEPS
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"

	"plait.dev/plait"
)

var background = context.Background()

func main() {
	arguments := os.Args[1:]
	isTime := len(arguments) == 4 && arguments[1] == "time"
	if !isTime && !(len(arguments) == 3 && arguments[1] == "feed") {
		fmt.Fprintln(os.Stderr, "usage: calls CONFIG time CALLS TURNS | calls CONFIG feed STEPS")
		os.Exit(2)
	}
	engine, err := open(arguments[0])
	check(err)
	defer engine.Close()
	var answer any
	if isTime {
		answer, err = times(engine, number(arguments[2]), number(arguments[3]))
	} else {
		answer, err = addresses(engine, number(arguments[2]))
	}
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(answer))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "calls:", err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func open(path string) (*plait.Engine, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	host, err := plait.NewContext()
	if err != nil {
		return nil, err
	}
	config, err := host.NewConfig()
	if err != nil {
		return nil, err
	}
	if err := config.Load(text); err != nil {
		return nil, err
	}
	group, err := host.NewGroup(config, 0, 1, 1)
	if err != nil {
		return nil, err
	}
	return group.NewEngine(background, config)
}

func times(engine *plait.Engine, calls, turns int) (map[string][]float64, error) {
	result := map[string][]float64{}
	for turn := 0; turn < turns; turn++ {
		right, begin := 0, time.Now()
		for i := 0; i < calls; i++ {
			if engine.State() == plait.StateReady {
				right++
			}
		}
		took := time.Since(begin)
		if right != calls {
			return nil, errors.New("the engine is not ready")
		}
		result["state"] = append(result["state"], float64(took.Nanoseconds())/float64(calls))
	}
	wanted, _, _ := plait.Version()
	for turn := 0; turn < turns; turn++ {
		right, begin := 0, time.Now()
		for i := 0; i < calls; i++ {
			if major, _, _ := plait.Version(); major == wanted {
				right++
			}
		}
		took := time.Since(begin)
		if right != calls {
			return nil, errors.New("the version changes")
		}
		result["version"] = append(result["version"], float64(took.Nanoseconds())/float64(calls))
	}
	return result, nil
}

type fed struct {
	Bytes     int       `json:"bytes"`
	Addresses []uintptr `json:"addresses"`
}

func fill(tokens []int32, step int) {
	for i := range tokens {
		tokens[i] = int32((step + i) % 256)
	}
}

func addresses(engine *plait.Engine, steps int) (*fed, error) {
	spec, err := engine.BatchSpec()
	if err != nil {
		return nil, err
	}
	batch, err := engine.NewBatch(plait.Global)
	if err != nil {
		return nil, err
	}
	defer batch.Close()
	rows, columns := int(spec.GlobalRows), int(spec.SequenceLength)+1
	result := &fed{Bytes: 4 * rows * columns}
	for step := 0; step < steps; step++ {
		tokens, err := batch.Map("tokens", rows, columns)
		if err != nil {
			return nil, err
		}
		fill(tokens, step)
		if _, err := engine.Step(background, batch); err != nil {
			return nil, err
		}
		result.Addresses = append(result.Addresses, uintptr(unsafe.Pointer(&tokens[0])))
	}
	own := make([]int32, rows*columns)
	fill(own, steps)
	if err := batch.Set("tokens", rows, columns, own); err != nil {
		return nil, err
	}
	_, err = engine.Step(background, batch)
	return result, err
}
