package azurite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// ownMark is a header of all responses of an Azurite that this package started,
// in any process. serve.cjs sets it.
const ownMark = "Kennel-Storage"

// OwnAccount is an account of a devstore that a kennel started for an app, in any
// process, besides the usual one. Its key is never used: it is the mark of what
// cannot be marked by a header.
const OwnAccount = "kennelapp"

// watchInterval is how often [Server.Watch] probes the ports.
const watchInterval = 2 * time.Second

// Running returns the storage that a developer runs at the ports first, first+1
// and first+2 of 127.0.0.1, as every Azurite does by default, or nil if there is
// none: an Azurite or a devstore. One that a kennel started belongs to the app
// of another run, whose queues no other app must serve, so it does not count.
// [Server.Stop] has no effect on the result.
func Running(ctx context.Context, first int) *Server {
	s := &Server{key: publicKey, done: make(chan struct{})}
	for i, url := range []*string{&s.blobURL, &s.queueURL, &s.tableURL} {
		*url = fmt.Sprintf("http://127.0.0.1:%d/%s", first+i, accountName)
	}
	if s.probe(ctx) != nil {
		return nil
	}
	return s
}

// Watch closes Done when a server of [Running] has ended or another program has
// its ports. It returns then, or when ctx ends.
func (s *Server) Watch(ctx context.Context) { s.watch(ctx, watchInterval) }

func (s *Server) watch(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.probe(ctx)
		if ctx.Err() == nil && hasEnded(err) {
			s.err = err
			close(s.done)
			return
		}
	}
}

// wsaRefused is ECONNREFUSED on Windows.
const wsaRefused = syscall.Errno(10061)

// hasEnded reports whether an error of probe shows that the Azurite has ended.
// Without an answer in time it is busy or suspended, and keeps its ports; and
// this machine may lack a port or a file for a connection.
func hasEnded(err error) bool {
	return errors.Is(err, errOther) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// errOther reports that a port is not that of storage which a developer runs.
var errOther = errors.New("another program")

// probe checks that all services answer, and are those of one kind of storage
// that no kennel started for an app.
func (s *Server) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, service := range []struct{ name, url string }{{"Blob", s.blobURL}, {"Queue", s.queueURL}, {"Table", s.tableURL}} {
		answer, err := get(ctx, service.url)
		if err != nil {
			return err
		}
		server := answer.Header.Get("Server")
		own := answer.Header.Get(ownMark) != ""
		kind := ""
		switch {
		case strings.HasPrefix(server, "Azurite-"+service.name):
			kind = "Azurite"
		case server == "devstore":
			kind = server
			answer, err := get(ctx, strings.TrimSuffix(service.url, accountName)+OwnAccount)
			if err != nil {
				return err
			}
			own = answer.StatusCode != http.StatusNotFound
		}
		if s.kind == "" {
			s.kind = kind
		}
		switch {
		case kind == "" || kind != s.kind:
			return fmt.Errorf("%w answers at %s", errOther, service.url)
		case own:
			return fmt.Errorf("%w answers at %s: the %s of another kennel up", errOther, service.url, kind)
		}
	}
	return nil
}

// get sends a request that is not signed, and returns the answer without its
// body.
func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true // requests are rare
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return answer, answer.Body.Close()
}
