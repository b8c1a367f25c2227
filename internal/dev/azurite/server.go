package azurite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	startTime = time.Minute      // until all services answer; usually two seconds
	stopTime  = 10 * time.Second // until the process is killed; usually none
)

// Options are the optional parts of a server; nil and zero mean the defaults.
type Options struct {
	Dir string    // keeps the data; "" keeps them in memory
	Log io.Writer // gets what Azurite prints; nil: nobody

	// Where the services listen, on 127.0.0.1 only; 0: any free port.
	BlobPort, QueuePort, TablePort int
}

// Server is a running Azurite.
type Server struct {
	cmd    *exec.Cmd
	stdin  io.Closer // closing it asks Azurite to end
	output *output
	done   chan struct{} // closed when the process has ended
	err    error         // why it ended; set before done is closed

	blobURL, queueURL, tableURL string
}

// Start runs Azurite and returns when all its services answer. The ctx bounds
// the starting alone; the server runs until [Server.Stop] or until this
// process ends.
func Start(ctx context.Context, in Installed, o *Options) (*Server, error) {
	if o == nil {
		o = &Options{}
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()

	args, err := arguments(o)
	if err != nil {
		return nil, fmt.Errorf("start Azurite: %w", err)
	}
	s := &Server{output: newOutput(o.Log), done: make(chan struct{})}
	s.cmd = exec.Command(in.Node, args...)
	s.cmd.Dir = in.Dir
	s.cmd.Stdout = s.output
	s.cmd.Stderr = s.output
	if o.Dir != "" {
		held, err := lockData(ctx, o.Dir)
		if err != nil {
			return nil, fmt.Errorf("start Azurite: %w", err)
		}
		if held != nil {
			defer held.Close()
			s.cmd.ExtraFiles = []*os.File{held} // held by Azurite itself, until it has written its last
		}
	}
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start Azurite: %w", err)
	}
	s.stdin = stdin
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start Azurite: %w", err)
	}
	go func() { // Stop waits for it
		s.err = s.cmd.Wait()
		close(s.done)
	}()

	select {
	case urls := <-s.output.listening:
		s.blobURL, s.queueURL, s.tableURL = urls["Blob"], urls["Queue"], urls["Table"]
		err = s.answers(ctx)
	case <-s.done:
		return nil, fmt.Errorf("start Azurite: it ended at once and said:\n%s", s.output.last())
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		s.Stop() // its own error would only repeat this one
		return nil, fmt.Errorf("start Azurite: %w; it said:\n%s", err, s.output.last())
	}
	return s, nil
}

// lockData makes sure that no other Azurite works on the data: each would
// answer from its own memory, and the last to end would overwrite the rest.
// One that is just ending is waited for.
func lockData(ctx context.Context, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	held, err := lock(ctx, filepath.Join(dir, ".lock"), func() {})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the data in %s is in use by another Azurite: stop that one, or keep the data in another folder", dir)
	}
	return held, err
}

func arguments(o *Options) ([]string, error) {
	args := []string{"serve.cjs",
		"--silent", // no line for each request
		"--disableTelemetry",
		"--skipApiVersionCheck", // the SDK speaks newer versions than Azurite knows
		"--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(o.BlobPort),
		"--queueHost", "127.0.0.1", "--queuePort", strconv.Itoa(o.QueuePort),
		"--tableHost", "127.0.0.1", "--tablePort", strconv.Itoa(o.TablePort),
	}
	if o.Dir == "" {
		return append(args, "--inMemoryPersistence"), nil
	}
	dir, err := filepath.Abs(o.Dir) // Azurite runs in another folder
	if err != nil {
		return nil, err
	}
	return append(args, "--location", dir), nil
}

// answers makes sure that each service speaks HTTP.
func (s *Server) answers(ctx context.Context) error {
	for _, address := range []string{s.blobURL, s.queueURL, s.tableURL} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		answer.Body.Close() // any status will do: nobody signed the request
	}
	return nil
}

// ConnectionString names the server and its account the way storage clients
// expect it.
func (s *Server) ConnectionString() string {
	return "DefaultEndpointsProtocol=http;AccountName=" + accountName + ";AccountKey=" + accountKey +
		";BlobEndpoint=" + s.blobURL + ";QueueEndpoint=" + s.queueURL + ";TableEndpoint=" + s.tableURL + ";"
}

// BlobURL is where blobs are served, the account's name included.
func (s *Server) BlobURL() string { return s.blobURL }

// QueueURL is where queues are served, the account's name included.
func (s *Server) QueueURL() string { return s.queueURL }

// TableURL is where tables are served, the account's name included.
func (s *Server) TableURL() string { return s.tableURL }

// Done is closed when Azurite has ended, asked or not.
func (s *Server) Done() <-chan struct{} { return s.done }

// Stop ends Azurite, which first writes to disk what it holds, and waits for
// it. Stopping twice is fine.
func (s *Server) Stop() error {
	s.stdin.Close()
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.cmd.Process.Kill()
		<-s.done
		return errors.New("stop Azurite: it did not end by itself and was killed")
	}
	if s.err != nil {
		return fmt.Errorf("stop Azurite: %w; it said:\n%s", s.err, s.output.last())
	}
	return nil
}
