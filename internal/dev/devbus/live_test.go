package devbus_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// TestLive runs the live tests of the Go SDK against the broker. The authors of
// the SDK run them against the real service, so what they require is what the
// service does. The tests in expectedFailures must fail, all others must pass.
//
// The tests come from the module cache and run unchanged, each in a process and
// with namespaces of its own. Environment variables give them the endpoints,
// the certificate authority and the source of their tokens.
func TestLive(t *testing.T) {
	storetest.OnlyInProve(t)
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		t.Skipf("on %s, Go does not read the certificate authority of the tests from SSL_CERT_FILE", runtime.GOOS)
	}
	tests := buildLive(t)
	for _, name := range slices.Sorted(maps.Keys(expectedFailures)) {
		if !slices.ContainsFunc(tests, func(l liveTest) bool { return l.String() == name }) {
			t.Errorf("%s does not exist: remove it from expectedFailures", name)
		}
	}
	s := newSubscription(t)
	var ran, passed atomic.Int64
	t.Run("tests", func(t *testing.T) { // returns after the last one
		for _, l := range tests {
			t.Run(l.String(), func(t *testing.T) {
				t.Parallel()
				ran.Add(1)
				output, err := l.run(t.Context(), s.environment(t))
				reason, expected := expectedFailures[l.String()]
				switch {
				case err == nil && expected:
					t.Errorf("passes: remove it from expectedFailures, where the reason is: %s", reason)
				case err == nil:
					passed.Add(1)
				case !expected:
					t.Errorf("%v\n%s", err, output)
				}
			})
		}
	})
	const known, bar = 121, 100
	if len(tests) != known {
		t.Errorf("the SDK has %d live tests, not %d: if its version is another, change the number", len(tests), known)
	}
	if ran.Load() < int64(len(tests)) {
		return // -run selects some
	}
	t.Logf("figure: live tests of the Go SDK that pass | %d of %d | ≥ %d", passed.Load(), len(tests), bar)
	if passed.Load() < bar {
		t.Errorf("%d live tests pass, want at least %d", passed.Load(), bar)
	}
}

// liveTest is a test of the SDK that uses the service.
type liveTest struct {
	binary string // the tests of its package
	dir    string // of its package
	name   string
}

func (l liveTest) String() string { return filepath.Base(l.binary) + "/" + l.name }

// buildLive builds the tests of the SDK and returns the live ones.
func buildLive(t *testing.T) []liveTest {
	t.Helper()
	const module = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	out, err := list.Output()
	root := string(bytes.TrimSpace(out))
	if err != nil || root == "" {
		t.Fatalf("find %s in the module cache: %v; run: go mod download", module, err)
	}
	binaries := t.TempDir()
	var tests []liveTest
	for _, pkg := range []string{"azservicebus", "admin", "internal"} {
		dir := filepath.Join(root, strings.TrimPrefix(pkg, "azservicebus"))
		binary := filepath.Join(binaries, pkg)
		// The first build downloads the modules that only the tests need.
		build := exec.CommandContext(t.Context(), "go", "test", "-c", "-mod=readonly", "-ldflags=-w", "-o", binary, ".")
		build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build the tests of %s: %v\n%s", pkg, err, out)
		}
		// Without the service, the live tests skip themselves.
		skip := exec.CommandContext(t.Context(), binary, "-test.v")
		skip.Dir = dir
		out, err := skip.CombinedOutput()
		if err != nil {
			t.Logf("the other tests of %s: %v\n%s", pkg, err, out)
		}
		var names []string
		for _, line := range regexp.MustCompile(`(?m)^ *--- SKIP: (\w+)`).FindAllSubmatch(out, -1) {
			names = append(names, string(line[1])) // the test, not the subtest
		}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			tests = append(tests, liveTest{binary, dir, name})
		}
	}
	return tests
}

// run runs the test. It returns an error and the output unless the test passes.
func (l liveTest) run(ctx context.Context, env []string) (output []byte, err error) {
	test := exec.CommandContext(ctx, l.binary, "-test.v", "-test.timeout=2m", "-test.run=^"+l.name+"$")
	test.Dir, test.Env = l.dir, env
	output, err = test.CombinedOutput()
	if err == nil && !bytes.Contains(output, []byte("--- PASS: "+l.name+" ")) {
		err = errors.New("the test skips itself")
	}
	return output, err
}

// subscription is what the namespaces of all tests share.
type subscription struct {
	authority *x509.Certificate
	key       *ecdsa.PrivateKey // of all certificates
	env       []string
}

func newSubscription(t *testing.T) *subscription {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := &subscription{key: key}
	root := s.issue(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	if s.authority, err = x509.ParseCertificate(root); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root}), 0o600); err != nil {
		t.Fatal(err)
	}
	// The server answers as the identity endpoint of App Service does. As a
	// proxy, it keeps requests to other hosts on this machine.
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			http.Error(w, "no other host can be reached", http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"access_token":"any","token_type":"Bearer","expires_on":"%d"}`, time.Now().Add(time.Hour).Unix())
	}))
	t.Cleanup(web.Close)
	s.env = []string{
		"AZURE_RECORD_MODE=live",
		"AZURE_TOKEN_CREDENTIALS=ManagedIdentityCredential",
		"IDENTITY_ENDPOINT=" + web.URL,
		"IDENTITY_HEADER=any",
		"HTTPS_PROXY=" + web.URL,
		"SSL_CERT_FILE=" + file,
	}
	return s
}

// issue signs a certificate: the first by itself, the others by the first.
func (s *subscription) issue(t *testing.T, c *x509.Certificate) []byte {
	t.Helper()
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(1), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, cmp.Or(s.authority, c), s.key.Public(), s.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// environment starts two namespaces and returns the environment of a test.
func (s *subscription) environment(t *testing.T) []string {
	t.Helper()
	standard, premium := s.namespace(t, false), s.namespace(t, true)
	connect := func(endpoint, key string) string {
		return fmt.Sprintf("Endpoint=sb://%s/;SharedAccessKeyName=%s;SharedAccessKey=any", endpoint, key)
	}
	return append(slices.Clone(s.env),
		"SERVICEBUS_ENDPOINT="+standard,
		"SERVICEBUS_ENDPOINT_PREMIUM="+premium,
		"SERVICEBUS_CONNECTION_STRING="+connect(standard, "manage"),
		"SERVICEBUS_CONNECTION_STRING_PREMIUM="+connect(premium, "manage"),
		"SERVICEBUS_CONNECTION_STRING_NO_MANAGE="+connect(standard, "no-manage"),
		"SERVICEBUS_CONNECTION_STRING_SEND_ONLY="+connect(standard, "send"),
		"SERVICEBUS_CONNECTION_STRING_LISTEN_ONLY="+connect(standard, "listen"),
	)
}

// namespace starts a broker with the queues that the tests require. It returns
// an address at which the broker is reached through TLS.
func (s *subscription) namespace(t *testing.T, premium bool) (endpoint string) {
	t.Helper()
	b, err := devbus.Listen(&devbus.Options{Premium: premium})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	err = errors.Join(b.CreateQueue("testQueue", nil), b.CreateQueue("testQueueWithSessions", &devbus.Settings{RequiresSession: true}))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	endpoint = listener.Addr().String()
	// For AMQP, the SDK takes host and port for the name in the certificate.
	c := s.issue(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{endpoint}})
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c}, PrivateKey: s.key}}}
	address := regexp.MustCompile(`//(.*?);`).FindStringSubmatch(b.ConnectionString())[1]
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(tls.Server(client, config), address)
		}
	}()
	return endpoint
}

// forward copies bytes between a client and the broker until one of them
// closes its connection. Like a network, it takes time: one of the tests
// requires that 1 MB does not arrive at a client within 20 ms.
func forward(client net.Conn, address string) {
	defer client.Close()
	broker, err := net.Dial("tcp4", address)
	if err != nil {
		return
	}
	defer broker.Close()
	go func() {
		io.Copy(broker, client)
		broker.Close()
	}()
	for buffer := make([]byte, 4<<10); ; time.Sleep(time.Millisecond) {
		n, failed := broker.Read(buffer)
		if _, err := client.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
