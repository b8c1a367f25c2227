package azurite

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRunning checks that an Azurite of another program is found if all its
// services answer at their ports.
func TestRunning(t *testing.T) {
	for _, tt := range []struct {
		name    string
		servers []string // the header Server at each port; "" for no program
		want    bool
	}{
		{"all", []string{"Azurite-Blob/3.35.0", "Azurite-Queue/3.35.0", "Azurite-Table/3.35.0"}, true},
		{"blobs only", []string{"Azurite-Blob/3.35.0", "", ""}, false},
		{"another program", []string{"Azurite-Blob/3.35.0", "nginx", "Azurite-Table/3.35.0"}, false},
		{"other order", []string{"Azurite-Blob/3.35.0", "Azurite-Table/3.35.0", "Azurite-Queue/3.35.0"}, false},
		{"of another kennel", []string{"Azurite-Blob/3.35.0 own", "Azurite-Queue/3.35.0 own", "Azurite-Table/3.35.0 own"}, false},
		{"none", []string{"", "", ""}, false},
	} {
		first, listeners := consecutive(t, len(tt.servers))
		answerAs(t, listeners, tt.servers...)
		s := Running(t.Context(), first)
		if (s != nil) != tt.want {
			t.Errorf("%s: found %v, want %v", tt.name, s != nil, tt.want)
		}
		if s == nil {
			continue
		}
		if err := s.Stop(); err != nil {
			t.Errorf("%s: Stop: %v", tt.name, err)
		}
		select {
		case <-s.Done():
			t.Errorf("%s: it is done", tt.name)
		default:
		}
	}
}

// answerAs answers at each listener with a header Server, and the mark of this
// package if it ends with "own". It closes the listeners without a name.
func answerAs(t *testing.T, listeners []net.Listener, names ...string) (end func()) {
	var servers []*http.Server
	for i, listener := range listeners {
		if names[i] == "" {
			listener.Close()
			continue
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			name, own := strings.CutSuffix(names[i], " own")
			w.Header().Set("Server", name)
			if own {
				w.Header().Set(ownMark, "own")
			}
			w.WriteHeader(http.StatusForbidden)
		})}
		t.Cleanup(func() { server.Close() })
		servers = append(servers, server)
		go server.Serve(listener)
	}
	return func() {
		for _, server := range servers {
			server.Close()
		}
	}
}

// TestWatch checks that the end of an Azurite of another program is noticed, and
// that another one at its ports does not take its place if it is kennel's.
func TestWatch(t *testing.T) {
	azurites := []string{"Azurite-Blob/3.35.0", "Azurite-Queue/3.35.0", "Azurite-Table/3.35.0"}
	for _, tt := range []struct {
		name string
		next string // after the names at its ports; "-": nothing listens
		want string
	}{
		{"ended", "-", "connect"},
		{"of another kennel", " own", "the Azurite of another kennel up"},
	} {
		first, listeners := consecutive(t, len(azurites))
		end := answerAs(t, listeners, azurites...)
		s := Running(t.Context(), first)
		if s == nil {
			t.Fatal("not found")
		}
		end()
		if tt.next != "-" {
			listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", first))
			must(t, err)
			answerAs(t, []net.Listener{listener}, azurites[0]+tt.next)
		}
		s.watch(t.Context(), time.Millisecond)
		<-s.Done()
		if got := s.Ending(); !strings.Contains(got, tt.want) {
			t.Errorf("%s: ended with %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestHasEnded checks that an Azurite which could not be asked has not ended.
func TestHasEnded(t *testing.T) {
	dial := func(err error) error {
		return fmt.Errorf("probe: %w", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)})
	}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{dial(syscall.ECONNREFUSED), true},
		{fmt.Errorf("%w answers", errOther), true},
		{dial(syscall.EMFILE), false},
		{dial(syscall.EADDRNOTAVAIL), false},
		{dial(os.ErrDeadlineExceeded), false},
		{context.DeadlineExceeded, false},
	} {
		if got := hasEnded(tt.err); got != tt.want {
			t.Errorf("%v: ended %t, want %t", tt.err, got, tt.want)
		}
	}
}

// consecutive listens at n consecutive ports, from first.
func consecutive(t *testing.T, n int) (first int, listeners []net.Listener) {
	t.Helper()
	for range 100 {
		for _, l := range listeners {
			l.Close()
		}
		listeners = nil
		for i := range n {
			address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
			if i > 0 {
				address.Port = first + i
			}
			l, err := net.ListenTCP("tcp4", address)
			if err != nil {
				break
			}
			if i == 0 {
				first = l.Addr().(*net.TCPAddr).Port
			}
			listeners = append(listeners, l)
		}
		if len(listeners) == n {
			return first, listeners
		}
	}
	t.Fatalf("no %d consecutive free ports", n)
	return 0, nil
}
