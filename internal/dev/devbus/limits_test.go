package devbus_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
)

// TestPropertyLimits sends and schedules messages whose properties just comply
// with a limit of the service, and such that do not.
func TestPropertyLimits(t *testing.T) {
	properties := func(sizes ...int) map[string]any {
		p := map[string]any{}
		for i, n := range sizes {
			p[string(rune('a'+i))] = strings.Repeat("x", n)
		}
		return p
	}
	id := func(length int) *string { return to.Ptr(strings.Repeat("ä", length)) }
	for _, tt := range []struct {
		name    string
		message *sb.Message
		want    string // part of the error; "": the message is accepted
	}{
		{"the longest ids", &sb.Message{MessageID: id(128), SessionID: id(128), PartitionKey: id(128)}, ""},
		{"a long message-id", &sb.Message{MessageID: id(129)}, "com.microsoft:argument-error"},
		{"a long session id", &sb.Message{SessionID: id(129)}, "com.microsoft:argument-error"},
		{"a long partition key", &sb.Message{PartitionKey: id(129)}, "com.microsoft:argument-error"},
		{"two partitions", &sb.Message{SessionID: id(1), PartitionKey: id(2)}, "amqp:not-allowed"},
		{"large properties", &sb.Message{ApplicationProperties: properties(32_000, 32_000)}, ""},
		{"a property that is too large", &sb.Message{ApplicationProperties: properties(33_000)}, "amqp:internal-error"},
		{"many properties", &sb.Message{ApplicationProperties: properties(32_000, 32_000, 2_000)}, "the message is too large"}, // in the SDK's words
	} {
		onTopic(t, nil, nil, func(f *fixture) {
			f.must(f.b.CreateQueue("q", nil), "create")
			f.client = f.dial(noRetries)
			for _, entity := range []string{"q", "t"} {
				err := f.sender(entity).SendMessage(f.Context(), tt.message, nil)
				_, err2 := f.sender(entity).ScheduleMessages(f.Context(), []*sb.Message{tt.message}, time.Now().Add(time.Hour), nil)
				if tt.want == "" {
					f.must(errors.Join(err, err2), tt.name)
					continue
				}
				if err == nil || !strings.Contains(err.Error(), tt.want) || err2 == nil {
					f.Errorf("%s, to %s: got %v and %v, want %s", tt.name, entity, err, err2, tt.want)
				}
			}
		})
	}
}

// TestMessageSize checks that the limit of a message is that of its entity, or
// else of the namespace, and that links announce it.
func TestMessageSize(t *testing.T) {
	onTopic(t, &devbus.Settings{MaxMessageBytes: 2 << 20}, nil, func(f *fixture) {
		f.must(f.b.CreateQueue("q", nil), "create")
		for entity, limit := range map[string]int{"t": 2 << 20, "q": 256 << 10} {
			s := f.sender(entity)
			f.must(s.SendMessage(f.Context(), &sb.Message{Body: make([]byte, limit-1000)}, nil), "send")
			large := &sb.Message{Body: make([]byte, limit+1)}
			equal(f, "too large for "+entity, errors.Is(s.SendMessage(f.Context(), large, nil), sb.ErrMessageTooLarge), true)
			if _, err := s.ScheduleMessages(f.Context(), []*sb.Message{large}, time.Now().Add(time.Hour), nil); err == nil {
				t.Errorf("scheduled a message that is too large for %s", entity)
			}
			batch, err := s.NewMessageBatch(f.Context(), nil)
			f.must(err, "batch")
			f.must(batch.AddMessage(&sb.Message{Body: make([]byte, min(limit, 1<<20)-1000)}, nil), "fill a batch")
			equal(f, "a batch", errors.Is(batch.AddMessage(&sb.Message{Body: make([]byte, 2000)}, nil), sb.ErrMessageTooLarge), true)
		}
		one := f.subscriber("one", nil)
		m := f.receiveOne(one)
		equal(f, "bytes received", len(m.Body), 2<<20-1000)
		f.must(one.DeadLetterMessage(f.Context(), m, nil), "dead-letter")
		equal(f, "bytes received", len(f.receiveOne(f.subscriber("one", deadLetters)).Body), 2<<20-1000)
	})
}
