package run

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"kennel/internal/dev/localhost"
)

// An entrance answers requests until the host has the port.
type entrance struct{ close func() }

// openEntrance serves at the listener until close, which does not close the
// listener.
func openEntrance(l net.Listener) entrance {
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return entrance{func() {}}
	}
	server := &http.Server{Handler: http.HandlerFunc(localhost.Starting), ReadHeaderTimeout: 30 * time.Second}
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = server.Serve(lentListener{tcp}) // fails when it is closed
	})
	return entrance{sync.OnceFunc(func() {
		// A connection without a request must not delay the start.
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
		serving.Wait()
		_ = tcp.SetDeadline(time.Time{}) // fails if the listener is closed
	})}
}

// A lentListener stays open when its server closes it.
type lentListener struct{ *net.TCPListener }

func (l lentListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed // the server would repeat it after a timeout
	}
	return conn, err
}

func (l lentListener) Close() error { return l.SetDeadline(time.Unix(1, 0)) }
