package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/process"
)

// scripted is a processor whose items say how they end.
type scripted struct {
	mu    sync.Mutex
	calls map[string]int // by ID; guarded by mu
	began time.Time      // the first call; guarded by mu
	made  []string       // "id.attempt time since the first one"; guarded by mu

	attempts, atOnce int // see [Bounded]
	running, most    int // items now, and at most; guarded by mu
}

// Bounds implements [Bounded].
func (s *scripted) Bounds() (attempts, atOnce int) { return s.attempts, s.atOnce }

type scriptedItem struct {
	ID string `json:"id"`
	Do string `json:"do"`
}

func item(id int, do string) string { return fmt.Sprintf(`{"id":"%d","do":%q}`, id, do) }

// want returns how the item ends, and a part of its error.
func (i scriptedItem) want() (Outcome, string) {
	switch i.Do {
	case "reject":
		return ItemRejected, "not wanted"
	case "fail":
		return ItemFailed, "broken"
	case "panic":
		return ItemFailed, "panicked: oops"
	case "goexit":
		return ItemFailed, "ended its goroutine"
	case "hang":
		return ItemFailed, process.Overdue
	case "wait":
		return ItemFailed, "deadline exceeded"
	case "long":
		return ItemFailed, "more than 2048"
	case "invalid":
		return ItemFailed, "invalid JSON"
	case "vast error":
		return ItemFailed, "vast"
	}
	return ItemDone, ""
}

func (*scripted) Validate(json.RawMessage) error { return nil }

func (s *scripted) Process(ctx context.Context, i Item) (json.RawMessage, error) {
	var item scriptedItem
	if err := json.Unmarshal(i.Data, &item); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.calls[item.ID]++
	calls := s.calls[item.ID]
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.made = append(s.made, fmt.Sprintf("%s.%d %v", item.ID, i.Try, time.Since(s.began).Round(time.Second)))
	s.running++
	s.most = max(s.most, s.running)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}()
	switch item.Do {
	case "reject":
		return nil, fmt.Errorf("%w: not wanted", ErrRejected)
	case "fail":
		return nil, errors.New("broken")
	case "fail twice":
		if calls <= 2 {
			return nil, errors.New("broken")
		}
	case "snooze":
		return nil, &Later{Wait: time.Minute, Snoozed: true}
	case "snooze twice":
		if calls <= 2 {
			return nil, &Later{Wait: 70 * time.Second, Snoozed: true}
		}
	case "panic":
		panic("oops")
	case "goexit":
		runtime.Goexit()
	case "goexit twice":
		if calls <= 2 {
			runtime.Goexit()
		}
	case "hang":
		time.Sleep(24 * time.Hour)
	case "late":
		time.Sleep(30*time.Second + process.Grace)
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "long":
		return json.RawMessage(`"` + strings.Repeat("x", MaxResult) + `"`), nil
	case "invalid":
		return json.RawMessage(`{"a":`), nil
	case "vast error":
		return nil, errors.New(strings.Repeat("vast é", 1000))
	case "slow":
		table.Pause(ctx, 20*time.Second)
	default: // a time, or "in" and a time
		if text, ok := strings.CutPrefix(item.Do, "in "); ok && calls == 1 {
			wait, err := time.ParseDuration(text)
			return nil, &Later{Wait: wait, Err: errors.Join(errors.New("too many requests"), err)}
		}
		if d, err := time.ParseDuration(item.Do); err == nil {
			table.Pause(ctx, d)
		}
	}
	return json.RawMessage("{\n \"of\": \"" + item.ID + "\"\n}"), nil
}

func (*scripted) NewReport(string) Report { return new(scriptedReport) }

type scriptedReport struct {
	Done     int `json:"done"`
	Rejected int `json:"rejected"`
	Failed   int `json:"failed"`
}

func (r *scriptedReport) Add(result Result) error {
	switch result.Outcome {
	case ItemDone:
		if string(result.Result) != `{"of":"`+result.ID+`"}` {
			return fmt.Errorf("result %s of item %s", result.Result, result.ID)
		}
		r.Done++
	case ItemRejected:
		r.Rejected++
	default:
		r.Failed++
	}
	return nil
}

func (r *scriptedReport) JSON() ([]byte, error) { return json.Marshal(r) }
func (r *scriptedReport) CSV() ([]byte, error)  { return []byte("done\n"), nil }
