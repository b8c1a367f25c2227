package azurite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/azure"
)

// asOwner makes this test binary a program that starts Azurite, prints its
// address and waits until it is killed.
const asOwner = "KENNEL_TEST_OWN_AZURITE"

func TestMain(m *testing.M) {
	if os.Getenv(asOwner) == "" {
		os.Exit(m.Run())
	}
	in, err := Install(context.Background(), cacheDir(), nil)
	if err != nil {
		log.Fatal(err)
	}
	server, err := Start(context.Background(), in, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.BlobURL())
	<-server.Done()
}

func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "kennel")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// installed returns an Azurite. It needs Node.js, which make test does not.
func installed(t *testing.T) Installed {
	t.Helper()
	if os.Getenv("KENNEL_PROVE") == "" {
		t.Skip("runs in make prove")
	}
	in, err := Install(t.Context(), cacheDir(), os.Stderr)
	must(t, err)
	return in
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	conn, err := net.Dial("tcp", u.Host)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// untilClosed waits until the server has closed the connection.
func untilClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the server is still running: %v", err)
	}
}

func TestStartAndStop(t *testing.T) {
	in := installed(t)
	var output bytes.Buffer           // read after Stop only
	first := 12000 + os.Getpid()%2000 // no other test uses these ports
	for !free(first, first+1, first+2) {
		first += 3
	}
	server, err := StartAt(t.Context(), in, first, Options{Log: &output})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	if free(first-1, first) || free(first+1) || free(first+2, first+3) {
		t.Error("a port of Azurite counts as free")
	}
	conns := []net.Conn{}
	for i, address := range []string{server.BlobURL(), server.QueueURL(), server.TableURL()} {
		if want := fmt.Sprintf("http://127.0.0.1:%d/%s", first+i, accountName); address != want {
			t.Errorf("address %d is %q, want %q", i, address, want)
		}
		if !strings.Contains(server.ConnectionString(), "Endpoint="+address+";") {
			t.Errorf("connection string lacks %q", address)
		}
		conns = append(conns, dial(t, address))
	}
	must(t, server.Stop())
	<-server.Done()
	for _, conn := range conns {
		untilClosed(t, conn)
	}
	if err := server.Stop(); err != nil {
		t.Errorf("stop again: %v", err)
	}
	if !strings.Contains(output.String(), "Azurite Table service successfully closed") {
		t.Errorf("the log does not report an orderly end:\n%s", output.String())
	}
}

// TestKeepsData checks that data in a folder survives a restart, and that Stop
// reports data that was not written completely, as on a full disk. What an
// earlier Azurite left does not count.
func TestKeepsData(t *testing.T) {
	in := installed(t)
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("data", 0o755))
	must(t, os.WriteFile("data/earlier.json~", nil, 0o644))
	var mark ids.Value
	for run := range 2 {
		server, err := Start(t.Context(), in, &Options{Dir: "data"})
		must(t, err)
		blobs, err := azure.Account{ConnectionString: server.ConnectionString()}.OpenBlobs(nil)
		must(t, err)
		store := azure.NewSequences(blobs, "uniqueids")
		if run == 0 {
			mark, err = store.Replace(t.Context(), "orders", ids.Value{}, ids.Value{Text: "1001"})
			must(t, err)
			must(t, server.Stop())
			continue
		}
		if got, err := store.Load(t.Context(), "orders", ""); err != nil || got.Text != mark.Text || got.Version != mark.Version {
			t.Errorf("loaded %+v, %v, want %+v", got, err, mark)
		}
		must(t, os.WriteFile("data/new.json~", nil, 0o644))
		if err := server.Stop(); err == nil || !strings.Contains(err.Error(), "could not keep the data in data: ") {
			t.Errorf("got %v, want an error that data is lost", err)
		}
	}
}

// TestForeignStorage checks that an Azurite refuses the clients of another one,
// accepts those of the key that all have, and is not taken for one that a
// developer runs.
func TestForeignStorage(t *testing.T) {
	in := installed(t)
	first, listeners := consecutive(t, 3)
	for _, listener := range listeners {
		listener.Close()
	}
	server, err := StartAt(t.Context(), in, first, Options{})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	read := func(key string) error {
		connection := strings.Replace(server.ConnectionString(), server.key, key, 1)
		blobs, err := azure.Account{ConnectionString: connection}.OpenBlobs(nil)
		must(t, err)
		return azure.NewScratchBlob(blobs, "kennel", "check").Read(t.Context())
	}
	must(t, read(server.key))
	must(t, read(publicKey))
	err = read("b3RoZXI=")
	if answer, ok := errors.AsType[*azure.Error](err); !ok || answer.Status != 403 {
		t.Errorf("the key of another Azurite: got %v, want 403", err)
	}
	if port := fmt.Sprintf(":%d/", first); !strings.Contains(server.BlobURL(), port) {
		t.Skip("another program took the ports")
	}
	if Running(t.Context(), first) != nil {
		t.Error("an Azurite of kennel counts as one that a developer runs")
	}
}

// TestEndsOnRequestOfAnother checks that Azurite ends, rather than close its
// ports and live on, if another program asks it to.
func TestEndsOnRequestOfAnother(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no SIGTERM")
	}
	server, err := Start(t.Context(), installed(t), &Options{Dir: t.TempDir()})
	must(t, err)
	t.Cleanup(func() { server.Stop() })
	must(t, server.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-server.Done():
	case <-time.After(time.Minute):
		t.Fatal("it is still running")
	}
	must(t, server.Stop()) // it has written its data
	if got, want := server.Ending(), fmt.Sprintf("process %d, exit status 0", server.cmd.Process.Pid); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNeverOrphaned checks that Azurite ends if its owner is killed with
// SIGKILL.
func TestNeverOrphaned(t *testing.T) {
	installed(t)
	self, err := os.Executable()
	must(t, err)
	owner := exec.Command(self)
	owner.Env = append(os.Environ(), asOwner+"=1")
	owner.Stderr = os.Stderr
	stdout, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		owner.Process.Kill()
		t.Fatalf("no address from the owner: %v, %v", err, owner.Wait())
	}
	conn := dial(t, strings.TrimSpace(address))
	owner.Process.Kill()
	owner.Wait()
	untilClosed(t, conn)
}

func TestStartFails(t *testing.T) {
	in := installed(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		in   Installed
		o    Options
		want string
	}{
		{"port taken", t.Context(), in, Options{QueuePort: taken}, "EADDRINUSE"},
		{"script missing", t.Context(), Installed{Dir: t.TempDir(), Node: in.Node}, Options{}, "serve.cjs"},
		{"node missing", t.Context(), Installed{Dir: in.Dir, Node: filepath.Join(t.TempDir(), "node")}, Options{}, "no such file"},
		{"cancelled", ended, in, Options{}, context.Canceled.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, err := Start(tt.ctx, tt.in, &tt.o)
			if err == nil {
				server.Stop()
				t.Fatal("started, want an error")
			}
			if (tt.want == "EADDRINUSE") != errors.Is(err, errPortInUse) {
				t.Errorf("got %v, which is or is not errPortInUse", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error does not contain %q: %v", tt.want, err)
			}
		})
	}
}
