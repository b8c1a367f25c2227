package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// healthTimeout is below that of HEALTHCHECK in the Dockerfile, so that a probe
// reports itself that the worker hangs.
const healthTimeout = 3 * time.Second

// requestHealth requests /healthz of the worker that listens at address. It is
// the health check of the container image, which contains no other program.
func requestHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	// Dial accepts each address that the worker listens at: without a host, or
	// with an unspecified one, it is this machine.
	worker := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, address)
		},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://worker/healthz", nil)
	if err != nil {
		return err
	}
	answer, err := worker.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("the worker does not answer; use its --listen: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the program at %s answers /healthz with %s, a worker with 200; use the --listen of the worker", address, answer.Status)
	}
	return nil
}
