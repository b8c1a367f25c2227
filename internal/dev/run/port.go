package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"
)

// claimPort opens the port that the app listens on; 0 picks a free one. An
// occupied port is the most frequent failure, so the error names the occupant.
func claimPort(ctx context.Context, port int) (net.Listener, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use by %s; stop it or use another port, for example --port %d",
			port, occupant(ctx, address), port+1)
	}
	return listener, err
}

// occupant names the kind of program that occupies a port.
func occupant(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	switch _, err := hostState(ctx, "http://"+address); {
	case err == nil:
		return "another Functions host (`kennel up` or `func start`)"
	case errors.Is(err, errKeyed):
		return "a web server that requires a key, such as `kennel up --key`"
	case errors.Is(err, errNoHost):
		return "a web server that is not a Functions host"
	default:
		return "another program"
	}
}

var (
	errNoHost = errors.New("not a Functions host")
	errKeyed  = fmt.Errorf("%w: it requires a key", errNoHost)
)

// hostState returns the state of the Functions host at url, such as "Running".
// It returns errNoHost if another server responds.
func hostState(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/admin/host/status", nil)
	if err != nil {
		return "", err
	}
	req.Close = true // requests are rare
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized { // a host that requires keys
		return "", errKeyed
	}
	var status struct{ State string }
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil || status.State == "" {
		return "", errNoHost
	}
	return status.State, nil
}

// slowHost is how long a host may take to start before that is reported. Its
// first start may download extensions.
const slowHost = time.Minute

// awaitHost waits until a host is running. It calls slow once if that takes
// long.
func awaitHost(ctx context.Context, isRunning func(context.Context) bool, slow func()) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	overdue := time.NewTimer(slowHost)
	defer overdue.Stop()
	for {
		if isRunning(ctx) {
			return nil
		}
		select {
		case <-ticker.C:
		case <-overdue.C:
			slow()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
