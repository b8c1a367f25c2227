package parts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/customhandler"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/queue"
)

// A deletion is logged once, by the message that completes it.
func TestDeletedOnceInTheLog(t *testing.T) {
	log := &bytes.Buffer{}
	c := inMemory(t, log)
	c.channels = channelsIn(t, &channels.Options{AcceptFor: -1})
	channel, _, err := c.channels.Create(t.Context(), "news", "ann")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := c.channels.Delete(t.Context(), "news", ""); err != nil || d.State != channels.Running {
		t.Fatalf("deletion: %+v, %v, want it running", d, err)
	}
	message := customhandler.QueueMessage{Text: `{"v":1,"channel":"news","incarnation":"` + channel.Incarnation + `"}`}
	for range 3 {
		if _, err := c.cleanUp(t.Context(), message); err != nil || strings.Count(log.String(), "channel deleted") != 1 {
			t.Errorf("%v, log %s, want the deletion in it once", err, log)
		}
	}
}

// A dead letter that cannot be put keeps its message in the queue.
func TestDeadLetterRefused(t *testing.T) {
	c := inMemory(t, &bytes.Buffer{})
	c.dead = refusing{}
	_, err := c.cleanUp(t.Context(), customhandler.QueueMessage{Text: "not JSON", ID: "1"})
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "not a message that deletes a channel") {
		t.Errorf("got %v, want both what is wrong with the message and why it is not moved", err)
	}
}

// A sweep that runs out of time is continued by the next one, which does not
// start over.
func TestSweepGoesOn(t *testing.T) {
	log := &bytes.Buffer{}
	c := inMemory(t, log)
	sweep := c.sweep()
	for i := range 2500 {
		name := fmt.Sprintf("channel-%d", i)
		if _, _, err := c.channels.Create(t.Context(), name, "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.channels.Delete(t.Context(), name, ""); err != nil {
			t.Fatal(err)
		}
	}
	// All their records wait to grow old. Without time, each sweep looks at a
	// thousand of them.
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := sweep(ctx, customhandler.Tick{}); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	got := strings.Count(log.String(), `"all":false`)
	if got < 2 || !strings.Contains(log.String(), `"all":true`) {
		t.Errorf("four sweeps of 2,500 records logged %s, want the first ones to leave some, and a later one to end", log)
	}
}

func channelsIn(t *testing.T, o *channels.Options) *channels.Channels {
	t.Helper()
	c, err := channels.New(memory.NewTable(nil), memory.NewTable(nil), memory.NewOutbox(memory.NewQueues(nil), names.CleanupQueue), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// inMemory serves channels without a process.
func inMemory(t *testing.T, log *bytes.Buffer) *channelWork {
	queues := memory.NewQueues(nil)
	return &channelWork{
		channels: channelsIn(t, nil),
		dead:     memory.NewOutbox(queues, names.CleanupQueue+queue.PoisonSuffix),
		queues:   queues,
		letters:  &observe.LetterCount{Queue: names.CleanupQueue},
		log:      slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// refusing is a queue that takes nothing.
type refusing struct{ channels.Outbox }

var errRefused = errors.New("refused")

func (refusing) Put(context.Context, string, time.Duration) (string, error) { return "", errRefused }
