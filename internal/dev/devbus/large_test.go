package devbus_test

import (
	"testing"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// TestLargeReceives requests many large messages in one call, over TCP. None of
// them may be lost.
func TestLargeReceives(t *testing.T) {
	storetest.OnlyInProve(t)
	b, err := devbus.Listen(nil)
	f := &fixture{T: t, b: b.Broker}
	f.must(err, "listen")
	defer b.Close()
	f.must(b.CreateQueue("q", &devbus.Settings{LockDuration: 5 * time.Minute}), "create")
	f.client, err = sb.NewClientFromConnectionString(b.ConnectionString(), &sb.ClientOptions{RetryOptions: quick})
	f.must(err, "connect")
	defer f.client.Close(f.Context())
	for mode, n := range map[sb.ReceiveMode]int{
		sb.ReceiveModeReceiveAndDelete: storetest.Scale(50, 1000),
		sb.ReceiveModePeekLock:         storetest.Scale(50, 500),
	} {
		s, began := f.sender("q"), time.Now()
		for range n {
			f.must(s.SendMessage(f.Context(), &sb.Message{Body: make([]byte, 200<<10)}, nil), "send")
		}
		sent := time.Since(began)
		r := f.receiver(&sb.ReceiverOptions{ReceiveMode: mode})
		ms := f.receive(r, n)
		if mode == sb.ReceiveModePeekLock {
			f.complete(r, ms...)
		}
		f.counts("q", devbus.Counts{})
		t.Logf("mode %v: %d messages of 200 KB sent in %v, received in %v", mode, n, sent, time.Since(began)-sent)
	}
}
