package localhost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// TimerStatus is the status of a timer that is stored between two runs of the
// host.
type TimerStatus struct {
	Last        time.Time // start of the latest run; zero: never
	Next        time.Time
	LastUpdated time.Time
}

// TimerStore stores the status of timers by function name. Only one host may
// use it at a time.
type TimerStore interface {
	// Load returns the zero status for an unknown timer.
	Load(ctx context.Context, timer string) (TimerStatus, error)

	// Save replaces the status. After Save returns, the status survives a crash
	// of this process.
	Save(ctx context.Context, timer string, status TimerStatus) error
}

// memoryTimers keeps the status in memory, so that no missed run is caught up
// after a restart of the host.
type memoryTimers struct {
	mu     sync.Mutex
	status map[string]TimerStatus // guarded by mu
}

func (t *memoryTimers) Load(_ context.Context, timer string) (TimerStatus, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status[timer], nil
}

func (t *memoryTimers) Save(_ context.Context, timer string, status TimerStatus) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status == nil {
		t.status = map[string]TimerStatus{}
	}
	t.status[timer] = status
	return nil
}

// fileTimers stores one JSON file per timer, in the format of the real host's
// status blobs.
type fileTimers struct{ dir string }

func (t fileTimers) path(timer string) string { return filepath.Join(t.dir, timer+".timer.json") }

func (t fileTimers) Load(_ context.Context, timer string) (TimerStatus, error) {
	text, err := os.ReadFile(t.path(timer))
	if errors.Is(err, fs.ErrNotExist) {
		return TimerStatus{}, nil
	}
	if err != nil {
		return TimerStatus{}, err
	}
	var status TimerStatus
	if err := json.Unmarshal(text, &status); err != nil {
		return TimerStatus{}, fmt.Errorf("read %s: %w", t.path(timer), err)
	}
	return status, nil
}

func (t fileTimers) Save(_ context.Context, timer string, status TimerStatus) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	// Rename the file into place, so that it is complete even after a kill.
	temporary, err := os.CreateTemp(t.dir, timer+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), t.path(timer))
}
