// Package run is what the programs train and pair have in common: a configuration and a text in memory, the steps,
// and the line of losses.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"plait.dev/plait"
)

// Settings is what a command line says.
type Settings struct {
	Arguments []string // those that are no options
	Steps     int64    // 0: as run.steps of the configuration says
	Root      string   // of checkpoints, "": none
	IsResumed bool
}

// Parse reads a command line with so many arguments; false: it is none. The options of checkpoints are optional.
func Parse(words []string, arguments int, hasCheckpoints bool) (Settings, bool) {
	var s Settings
	for i := 0; i < len(words); i++ {
		isLast := i+1 == len(words)
		switch word := words[i]; {
		case word == "--steps" && !isLast:
			i++
			steps, err := strconv.ParseInt(words[i], 10, 64)
			if err != nil || steps <= 0 {
				return s, false
			}
			s.Steps = steps
		case word == "--checkpoint" && hasCheckpoints && !isLast:
			i++
			s.Root = words[i]
		case word == "--resume" && hasCheckpoints:
			s.IsResumed = true
		case strings.HasPrefix(word, "-"):
			return s, false
		default:
			s.Arguments = append(s.Arguments, word)
		}
	}
	return s, len(s.Arguments) == arguments && (s.Root != "" || !s.IsResumed)
}

// ReadFile is the content of a file.
func ReadFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s", path)
	}
	return data, nil
}

// Integer is the value of a key.
func Integer(config *plait.Config, key string) (int64, error) {
	value, err := config.Get(key)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(value, 10, 64)
}

// Train trains engine on text, whose bytes are the tokens, up to step last. The losses of the steps that were done
// come back, also beside an error; one that matches plait.Stopped says that ctx has ended.
func Train(ctx context.Context, engine *plait.Engine, text []byte, last int64) ([]float64, error) {
	batch, err := engine.NewBatch(plait.Global)
	if err != nil {
		return nil, err
	}
	defer batch.Close()
	var losses []float64
	for {
		spec, err := engine.BatchSpec()
		if err != nil || spec.FirstSample/spec.GlobalRows >= last {
			return losses, err
		}
		if err := fill(batch, spec, text); err != nil {
			return losses, err
		}
		metrics, err := engine.Step(ctx, batch)
		if err != nil && !errors.Is(err, plait.Stopped) {
			return losses, err
		}
		losses = append(losses, metrics.Loss)
		fmt.Fprintf(os.Stderr, "step %d/%d loss %.4f | %.0f tokens/s\n", metrics.Step, last, metrics.Loss,
			metrics.TokensPerSecond)
		if err != nil {
			return losses, err
		}
	}
}

// fill fills the batch's own memory: sequence j of the run begins at byte j * s, round and round.
func fill(batch *plait.Batch, spec plait.BatchSpec, text []byte) error {
	length, bytes := spec.SequenceLength, int64(len(text))
	if bytes < length+1 {
		return fmt.Errorf("the text holds fewer than %d bytes", length+1)
	}
	tokens, err := batch.Map("tokens", int(spec.GlobalRows), int(length+1))
	if err != nil {
		return err
	}
	for row := int64(0); row < spec.GlobalRows; row++ {
		first := (spec.FirstSample + row) * length % (bytes - length)
		for i := int64(0); i <= length; i++ {
			tokens[row*(length+1)+i] = int32(text[first+i])
		}
	}
	return nil
}

// Line is the losses as printf("%.17g") of C writes them: enough to tell any two numbers apart.
func Line(losses []float64) string {
	written := make([]string, len(losses))
	for i, loss := range losses {
		written[i] = strconv.FormatFloat(loss, 'g', 17, 64)
	}
	return strings.Join(written, " ")
}

// Exit says what came of a run, and ends the program: 0 done, 1 an error, 3 stopped. A run that was not broken off by
// an error prints its losses.
func Exit(program string, losses []float64, err error) {
	isStopped := errors.Is(err, plait.Stopped)
	if err != nil && !isStopped {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
	fmt.Println(Line(losses))
	if isStopped {
		os.Exit(3)
	}
	os.Exit(0)
}
