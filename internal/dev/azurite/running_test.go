package azurite

import (
	"net"
	"net/http"
	"testing"
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
		{"none", []string{"", "", ""}, false},
	} {
		first, listeners := consecutive(t, len(tt.servers))
		for i, listener := range listeners {
			if tt.servers[i] == "" {
				listener.Close()
				continue
			}
			server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Server", tt.servers[i])
				w.WriteHeader(http.StatusForbidden)
			})}
			t.Cleanup(func() { server.Close() })
			go server.Serve(listener)
		}
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
