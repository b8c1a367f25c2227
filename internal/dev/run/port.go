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

// claimPort opens the port on which the app is to answer; 0 takes any that is
// free. Being taken is explained, for it is what goes wrong most.
func claimPort(ctx context.Context, port int) (net.Listener, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is taken, %s; stop that, or choose another port with --port, for instance --port %d",
			port, occupant(ctx, address), port+1)
	}
	return listener, err
}

// occupant guesses by what a port is taken.
func occupant(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	switch _, err := hostState(ctx, "http://"+address); {
	case err == nil:
		return "by another Functions host: a `kennel up` or `func start` that still runs"
	case errors.Is(err, errNoHost):
		return "by a web server that is no Functions host"
	default:
		return "by another program"
	}
}

var errNoHost = errors.New("not a Functions host")

// hostState asks the Functions host at url for its state, such as "Running".
// It returns errNoHost when something else answers.
func hostState(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/admin/host/status", nil)
	if err != nil {
		return "", err
	}
	req.Close = true // it is not asked often
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var status struct{ State string }
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil || status.State == "" {
		return "", errNoHost
	}
	return status.State, nil
}

// awaitHost returns when the host at url is running.
func awaitHost(ctx context.Context, url string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		// Until the host listens, or while it is still loading, there is
		// nothing to do but to ask again: the caller watches its process.
		if state, err := hostState(ctx, url); err == nil && state == "Running" {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
