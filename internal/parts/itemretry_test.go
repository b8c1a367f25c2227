package parts

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kennel/internal/program"
	"kennel/work"
)

// TestRetryOfItems: an item waits for as long as Retry returns. If that panics,
// which is logged, it waits for the usual time.
func TestRetryOfItems(t *testing.T) {
	var text strings.Builder
	running := &life{begun: make(chan struct{})}
	close(running.begun)
	process := func(retry func(int, error) time.Duration) error {
		p := ownProcessor{&program.Processor{
			Name: "thumbnails", Timeout: 30 * time.Second, Retry: retry,
			Work: func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no route to host") },
		}, &program.Declared{}, running, slog.New(slog.NewTextHandler(&text, nil))}
		_, err := p.Process(t.Context(), work.Item{Batch: "b", ID: "1", Data: []byte("{}"), Try: 2})
		return err
	}
	for _, retry := range []func(int, error) time.Duration{nil, func(int, error) time.Duration { panic("oh") }} {
		err := process(retry)
		if _, ok := errors.AsType[*work.Later](err); ok || err == nil || err.Error() != "no route to host" {
			t.Errorf("%v, want the usual wait", err)
		}
		if logged := strings.Contains(text.String(), "panic: oh") && strings.Contains(text.String(), "attempt.item=1"); logged != (retry != nil) {
			t.Errorf("the log is %q", &text)
		}
	}
	later, ok := errors.AsType[*work.Later](process(func(failed int, _ error) time.Duration { return time.Duration(failed) * time.Minute }))
	if !ok || later.Wait != 2*time.Minute || later.Snoozed {
		t.Errorf("%+v, want a wait of 2 minutes", later)
	}
}
