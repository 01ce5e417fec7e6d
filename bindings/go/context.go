package plait

// #include <plait/plait.h>
import "C"

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"
)

// Context is what everything else hangs on. It keeps the log. Any goroutine may use it at any time.
type Context struct {
	handle
	logs    sync.Mutex
	pending []byte // lines that a handler has not seen, for it did not return
}

// NewContext checks that the library serves the version of the header that this package was built with; if not, the
// error is FailedPrecondition with the word version_mismatch.
func NewContext() (*Context, error) {
	var made *C.plait_context
	var object *C.plait_error
	code := C.plait_context_create(C.PLAIT_API_VERSION, nil, &made, &object)
	if err := result(code, object); err != nil {
		return nil, err
	}
	c := &Context{}
	c.hold(unsafe.Pointer(made), func(p unsafe.Pointer) { C.plait_context_free((*C.plait_context)(p)) }, nil)
	return c, nil
}

// LogLevel is the weight of a log record.
type LogLevel int32

// Log levels; a record passes when its level is at most that of the context, LogInfo at the start.
const (
	LogError   LogLevel = C.PLAIT_LOG_ERROR
	LogWarning LogLevel = C.PLAIT_LOG_WARNING
	LogInfo    LogLevel = C.PLAIT_LOG_INFO
	LogDebug   LogLevel = C.PLAIT_LOG_DEBUG
	LogTrace   LogLevel = C.PLAIT_LOG_TRACE
)

var logLevels = map[string]LogLevel{
	"error": LogError, "warning": LogWarning, "info": LogInfo, "debug": LogDebug, "trace": LogTrace,
}

// LogRecord is one record of the log.
type LogRecord struct {
	Time      time.Time
	Level     LogLevel
	Rank      int // -1: none
	Subsystem string
	Message   string
	Dropped   int64 // not 0: no record, but so many were lost here, for the log was full
}

// SetLogLevel drops records above level where they arise.
func (c *Context) SetLogLevel(level LogLevel) error {
	return c.call(func(p unsafe.Pointer, fail **C.plait_error) C.int32_t {
		return C.plait_context_set_log_level((*C.plait_context)(p), C.int32_t(level), fail)
	})
}

// linesOfADrain bounds the memory of a drain, whatever the log holds.
const linesOfADrain = 256

// DrainLogs takes the records out of the log, oldest first, and hands each to handler on this goroutine until there
// are no more. It counts the calls of handler. The log holds 4,096 records; older ones are lost, which a record with
// Dropped tells. handler may call the library. A panic in it reaches the caller; the record counts as handled, and
// those after it are handled by the next drain.
func (c *Context) DrainLogs(handler func(LogRecord)) (int, error) {
	handled := 0
	for {
		lines, err := c.takeLines()
		if err != nil || len(lines) == 0 {
			return handled, err
		}
		if err := c.handOut(lines, handler, &handled); err != nil {
			return handled, err
		}
	}
}

// takeLines takes what a handler left behind, else the next records of the log.
func (c *Context) takeLines() ([]byte, error) {
	c.logs.Lock()
	left := c.pending
	c.pending = nil
	c.logs.Unlock()
	if len(left) > 0 {
		return left, nil
	}
	return c.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_context_log_drain((*C.plait_context)(p), linesOfADrain, out, fail)
	})
}

// handOut hands out the records of one drain; what is not handled when it ends is kept.
func (c *Context) handOut(lines []byte, handler func(LogRecord), handled *int) error {
	defer func() {
		if len(lines) > 0 {
			c.logs.Lock()
			c.pending = append(lines, c.pending...)
			c.logs.Unlock()
		}
	}()
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		lines = rest
		record, err := parseRecord(line)
		if err != nil {
			return err
		}
		*handled++
		handler(record)
	}
	return nil
}

func parseRecord(line []byte) (LogRecord, error) {
	var fields struct {
		Time      float64 `json:"time"`
		Level     string  `json:"level"`
		Rank      int     `json:"rank"`
		Subsystem string  `json:"subsystem"`
		Message   string  `json:"message"`
		Dropped   int64   `json:"dropped"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return LogRecord{}, refused(Internal, "invariant", "a log line is no JSON object", err)
	}
	if fields.Dropped > 0 {
		return LogRecord{Time: time.Now(), Level: LogWarning, Rank: -1, Dropped: fields.Dropped,
			Message: fmt.Sprintf("the log was full: %d records were lost", fields.Dropped)}, nil
	}
	seconds, fraction := math.Modf(fields.Time)
	return LogRecord{Time: time.Unix(int64(seconds), int64(fraction*1e9)), Level: logLevels[fields.Level],
		Rank: fields.Rank, Subsystem: fields.Subsystem, Message: fields.Message}, nil
}

// ListCheckpoints is a JSON report about the steps under root.
func (c *Context) ListCheckpoints(root string) ([]byte, error) {
	path, err := text(root)
	if err != nil {
		return nil, err
	}
	return c.bytes(func(p unsafe.Pointer, out **C.plait_bytes, fail **C.plait_error) C.int32_t {
		return C.plait_checkpoint_list((*C.plait_context)(p), path, out, fail)
	})
}
