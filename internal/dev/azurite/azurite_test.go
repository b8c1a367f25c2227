package azurite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/azure"
)

// asOwner makes this test binary a program that starts Azurite, prints its
// address and waits to be killed.
const asOwner = "KENNEL_TEST_OWN_AZURITE"

func TestMain(m *testing.M) {
	if os.Getenv(asOwner) == "" {
		os.Exit(m.Run())
	}
	in, err := Install(context.Background(), cacheDir(), nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server, err := Start(context.Background(), in, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
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

func installed(t *testing.T) Installed {
	t.Helper()
	in, err := Install(t.Context(), cacheDir(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// untilClosed returns when the other side is gone.
func untilClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the server is still there: %v", err)
	}
}

func TestStartAndStop(t *testing.T) {
	in := installed(t)
	var log bytes.Buffer // read after Stop only
	server, err := Start(t.Context(), in, &Options{Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	conns := []net.Conn{}
	for _, address := range []string{server.BlobURL(), server.QueueURL(), server.TableURL()} {
		if !strings.HasPrefix(address, "http://127.0.0.1:") || !strings.HasSuffix(address, "/"+accountName) {
			t.Errorf("address %q is not this machine's, with the account", address)
		}
		if !strings.Contains(server.ConnectionString(), "Endpoint="+address+";") {
			t.Errorf("connection string lacks %q", address)
		}
		conns = append(conns, dial(t, address))
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	<-server.Done()
	for _, conn := range conns {
		untilClosed(t, conn)
	}
	if err := server.Stop(); err != nil {
		t.Errorf("stop again: %v", err)
	}
	if !strings.Contains(log.String(), "Azurite Table service successfully closed") {
		t.Errorf("no orderly end in the log:\n%s", log.String())
	}
}

// What is kept in a folder is there again after an orderly end.
func TestKeepsData(t *testing.T) {
	in := installed(t)
	t.Chdir(t.TempDir())
	var mark ids.Mark
	for _, run := range []struct {
		name string
		use  func(store *azure.Sequences) error
	}{
		{"write", func(store *azure.Sequences) (err error) {
			mark, err = store.Replace(t.Context(), "orders", ids.Mark{}, ids.Mark{Text: "1001"})
			return err
		}},
		{"read", func(store *azure.Sequences) error {
			got, err := store.Load(t.Context(), "orders")
			if err == nil && got != mark {
				err = fmt.Errorf("loaded %+v, want %+v", got, mark)
			}
			return err
		}},
	} {
		server, err := Start(t.Context(), in, &Options{Dir: "data"})
		if err != nil {
			t.Fatal(err)
		}
		blobs, err := azure.Account{ConnectionString: server.ConnectionString()}.OpenBlobs(nil)
		if err == nil {
			err = run.use(azure.NewSequences(blobs, "uniqueids"))
		}
		if err != nil {
			t.Errorf("%s: %v", run.name, err)
		}
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// A process that is killed without notice leaves no Azurite behind.
func TestNeverOrphaned(t *testing.T) {
	installed(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.Command(self)
	owner.Env = append(os.Environ(), asOwner+"=1")
	owner.Stderr = os.Stderr
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
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

func TestStartSaysWhy(t *testing.T) {
	in := installed(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().(*net.TCPAddr).Port

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name string
		ctx  context.Context
		in   Installed
		o    Options
		want string
	}{
		{"port taken", t.Context(), in, Options{QueuePort: taken}, "EADDRINUSE"},
		{"script missing", t.Context(), Installed{Dir: t.TempDir(), Node: in.Node}, Options{}, "serve.cjs"},
		{"node missing", t.Context(), Installed{Dir: in.Dir, Node: filepath.Join(t.TempDir(), "node")}, Options{}, "no such file"},
		{"given up", ended, in, Options{}, context.Canceled.Error()},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, err := Start(test.ctx, test.in, &test.o)
			if err == nil {
				server.Stop()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error does not say %q: %v", test.want, err)
			}
		})
	}
}
