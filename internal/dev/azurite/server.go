package azurite

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	startTime = time.Minute      // until all services respond; usually two seconds
	stopTime  = 10 * time.Second // until the process is killed; usually not needed
)

// Options are the options of a server; nil and zero mean the defaults.
type Options struct {
	Dir string    // the data folder; "" keeps the data in memory
	Log io.Writer // receives the output of Azurite; nil discards it

	// The ports of the services on 127.0.0.1; 0: any free port.
	BlobPort, QueuePort, TablePort int
}

// Server is a running Azurite, or other storage of [Running].
type Server struct {
	kind   string // Azurite or devstore; "" before the first probe
	cmd    *exec.Cmd
	stdin  io.Closer // closing it stops Azurite
	output *output
	dir    string        // the data folder; "" for data in memory
	key    string        // of the account, in base64
	done   chan struct{} // closed when the process has ended
	err    error         // why it ended; set before done is closed

	blobURL, queueURL, tableURL string
}

// StartAt is like [Start] with the ports first, first+1 and first+2, or with
// any free ports if one of these is in use.
func StartAt(ctx context.Context, in Installed, first int, o Options) (*Server, error) {
	o.BlobPort, o.QueuePort, o.TablePort = 0, 0, 0
	if !free(first, first+1, first+2) {
		return Start(ctx, in, &o)
	}
	usual := o
	usual.BlobPort, usual.QueuePort, usual.TablePort = first, first+1, first+2
	s, err := Start(ctx, in, &usual)
	if errors.Is(err, errPortInUse) { // another program was faster
		return Start(ctx, in, &o)
	}
	return s, err
}

// free reports whether the ports of 127.0.0.1 are free.
func free(ports ...int) bool {
	for _, port := range ports {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		listener.Close()
	}
	return true
}

var errPortInUse = errors.New("a port is in use")

// Start runs Azurite and returns when all its services respond. ctx limits only
// the start; the server runs until [Server.Stop] or until this process ends.
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
	key := make([]byte, 64)
	rand.Read(key) // never fails
	s := &Server{kind: "Azurite", output: newOutput(o.Log), dir: o.Dir, key: base64.StdEncoding.EncodeToString(key), done: make(chan struct{})}
	s.cmd = exec.Command(in.Node, args...)
	s.cmd.Env = append(s.cmd.Environ(), fmt.Sprintf("AZURITE_ACCOUNTS=%s:%s:%s", accountName, s.key, publicKey))
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
			s.cmd.ExtraFiles = []*os.File{held} // Azurite holds the lock until it has written its data
		}
		for _, path := range s.unwritten() {
			os.Remove(path) // left by an Azurite that was killed; if this fails, Stop reports an error too many
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
		last, err := s.output.last(), errors.New("it ended at once")
		if strings.Contains(last, "EADDRINUSE") {
			err = errPortInUse
		}
		return nil, fmt.Errorf("start Azurite: %w; its last output:\n%s", err, last)
	case <-ctx.Done():
		err = ctx.Err()
		s.cmd.Process.Kill() // it has no data yet, and does not read stdin while it loads
	}
	if err != nil {
		s.Stop() // its error would repeat this one
		return nil, fmt.Errorf("start Azurite: %w; its last output:\n%s", err, s.output.last())
	}
	return s, nil
}

// lockData locks the data folder against other Azurites: each would answer from
// its own memory, and the last to end would overwrite the data of the others.
// It waits for an Azurite that is about to end.
func lockData(ctx context.Context, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	held, err := lock(ctx, filepath.Join(dir, ".lock"), func() {})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("the data in %s is in use by another Azurite; stop it or use another folder", dir)
	}
	return held, err
}

func arguments(o *Options) ([]string, error) {
	args := []string{"serve.cjs",
		"--silent", // no log line per request
		"--disableTelemetry",
		"--skipApiVersionCheck", // the SDK uses newer API versions than Azurite supports
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

// answers checks that each service responds to HTTP.
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
		answer.Body.Close() // any status will do: the request is not signed
	}
	return nil
}

// unwritten returns the files of the data folder that were not completed.
// Azurite writes a new file beside each old one, replaces the old one, and does
// not report it if that fails.
func (s *Server) unwritten() []string {
	if s.dir == "" {
		return nil
	}
	var paths []string
	files, _ := os.ReadDir(s.dir) // it exists: the lock is in it
	for _, file := range files {
		if strings.HasSuffix(file.Name(), ".json~") {
			paths = append(paths, filepath.Join(s.dir, file.Name()))
		}
	}
	return paths
}

// Kind is the name of the program: Azurite, or devstore for one of [Running].
func (s *Server) Kind() string { return s.kind }

// ConnectionString returns the connection string for storage clients. Unless
// the server is one of [Running], no other Azurite accepts it.
func (s *Server) ConnectionString() string {
	return "DefaultEndpointsProtocol=http;AccountName=" + accountName + ";AccountKey=" + s.key +
		";BlobEndpoint=" + s.blobURL + ";QueueEndpoint=" + s.queueURL + ";TableEndpoint=" + s.tableURL + ";"
}

// BlobURL is the address of the blob service, including the account's name.
func (s *Server) BlobURL() string { return s.blobURL }

// QueueURL is the address of the queue service, including the account's name.
func (s *Server) QueueURL() string { return s.queueURL }

// TableURL is the address of the table service, including the account's name.
func (s *Server) TableURL() string { return s.tableURL }

// Done is closed when the server has ended for any reason. For one of
// [Running] it needs [Server.Watch].
func (s *Server) Done() <-chan struct{} { return s.done }

// Ending describes how the server ended once Done is closed: "process 4711, exit
// status 0".
func (s *Server) Ending() string {
	if s.cmd == nil {
		return s.err.Error()
	}
	return fmt.Sprintf("process %d, %v", s.cmd.Process.Pid, s.cmd.ProcessState)
}

// Stop stops Azurite and waits until it has written its data to disk and ended.
// A second call has no effect.
func (s *Server) Stop() error {
	if s.cmd == nil {
		return nil // another program runs it
	}
	s.stdin.Close()
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.cmd.Process.Kill()
		<-s.done
		return errors.New("stop Azurite: it did not end in time and was killed")
	}
	if len(s.unwritten()) > 0 {
		reason := "Azurite could not write it (is the disk full?)"
		if strings.Contains(s.output.last(), "ENOSPC") {
			reason = "no space left on the disk"
		}
		return fmt.Errorf("could not keep the data in %s: %s; the last changes are lost", s.dir, reason)
	}
	if s.err != nil {
		return fmt.Errorf("stop Azurite: %w; its last output:\n%s", s.err, s.output.last())
	}
	return nil
}
