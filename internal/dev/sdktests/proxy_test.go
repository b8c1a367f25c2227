package sdktests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// served are the names for which the proxy has a certificate. No connection to
// another host leaves it.
var served = []string{
	"*.blob.core.windows.net", "*.queue.core.windows.net", "*.table.core.windows.net",
	"*.table.cosmos.azure.com", // the table service too: aztables repeats its tests there
	"login.microsoftonline.com", "login.microsoft.com",
}

// certificates signs a certificate for the served names with an authority of its
// own, and writes both, and the key, to dir as PEM files.
func certificates(t *testing.T, dir string) (authority, certificate, key string) {
	t.Helper()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kennel test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	parent, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &parent.PublicKey, parent)
	must(t, err)
	authority = write("authority.pem", "CERTIFICATE", der)

	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "kennel tests"},
		NotBefore: template.NotBefore, NotAfter: template.NotAfter,
		DNSNames: served, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err = x509.CreateCertificate(rand.Reader, leaf, template, &own.PublicKey, parent)
	must(t, err)
	certificate = write("certificate.pem", "CERTIFICATE", der)
	der, err = x509.MarshalPKCS8PrivateKey(own)
	must(t, err)
	return authority, certificate, write("key.pem", "PRIVATE KEY", der)
}

// proxy is an HTTP proxy that ends TLS itself.
type proxy struct {
	storage http.Handler // gets the requests as the storage service would
	inner   *http.Server
	conns   chan net.Conn
	closed  chan struct{}
	close   func() // closes closed, once

	mu    sync.Mutex
	calls map[string]int // requests to storage by the account's name
}

// startProxy returns a proxy in front of storage, and its address.
func startProxy(t *testing.T, certificate, key string, storage http.Handler) (*proxy, string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certificate, key)
	must(t, err)
	p := &proxy{storage: storage, conns: make(chan net.Conn), closed: make(chan struct{}), calls: make(map[string]int)}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	quiet := log.New(io.Discard, "", 0) // clients that are killed leave broken connections
	p.inner = &http.Server{Handler: p, ErrorLog: quiet}
	go p.inner.Serve(tls.NewListener(p, &tls.Config{Certificates: []tls.Certificate{pair}}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	outer := &http.Server{Handler: http.HandlerFunc(p.connect), ErrorLog: quiet}
	go outer.Serve(listener)
	t.Cleanup(func() {
		outer.Close()
		p.inner.Close() // which closes p
	})
	return p, "http://" + listener.Addr().String()
}

// connect answers CONNECT and passes the connection on to the inner server.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect && known(r.Host) { // without TLS
		p.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodConnect || !known(r.Host) {
		http.Error(w, "only storage and sign-in are served here, not "+r.Host, http.StatusBadGateway)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if buffered.Reader.Buffered() > 0 { // no client sends before the answer
		conn.Close()
		return
	}
	io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	select {
	case p.conns <- conn:
	case <-p.closed:
		conn.Close()
	}
}

func known(host string) bool {
	name, _, _ := strings.Cut(host, ":")
	for _, s := range served {
		if _, domain, _ := strings.Cut(name, "."); name == s || "*."+domain == s {
			return true
		}
	}
	return false
}

// Accept, Close and Addr make the proxy the listener of its inner server.
func (p *proxy) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *proxy) Close() error {
	p.close()
	return nil
}

func (p *proxy) Addr() net.Addr { return &net.TCPAddr{} }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.Host, "login.") {
		signIn(w, r)
		return
	}
	account, _, _ := strings.Cut(r.Host, ".")
	p.mu.Lock()
	p.calls[strings.TrimSuffix(account, "-secondary")]++
	p.mu.Unlock()
	p.storage.ServeHTTP(w, r)
}

// requests returns how many requests to storage named the account.
func (p *proxy) requests(account string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[account]
}

const tenant = "11111111-2222-3333-4444-555555555555"

// signIn is as much of Microsoft Entra ID as azidentity needs to get a token for
// a client secret. The token names the audience that was asked for.
func signIn(w http.ResponseWriter, r *http.Request) {
	base := "https://" + r.Host + "/" + tenant
	answer := map[string]any{}
	switch {
	case strings.HasSuffix(r.URL.Path, "/discovery/instance"):
		answer["tenant_discovery_endpoint"] = base + "/v2.0/.well-known/openid-configuration"
		answer["metadata"] = []map[string]any{{
			"preferred_network": r.Host, "preferred_cache": "login.windows.net", "aliases": []string{r.Host},
		}}
	case strings.HasSuffix(r.URL.Path, "/openid-configuration"):
		answer["issuer"] = base + "/v2.0"
		answer["authorization_endpoint"] = base + "/oauth2/v2.0/authorize"
		answer["token_endpoint"] = base + "/oauth2/v2.0/token"
	case strings.HasSuffix(r.URL.Path, "/token"):
		scope, _, _ := strings.Cut(r.FormValue("scope"), " ")
		audience := strings.TrimSuffix(strings.TrimSuffix(scope, ".default"), "/")
		if audience == "https://cosmos.azure.com" { // for which the table service stands in
			audience = "https://storage.azure.com"
		}
		answer["token_type"], answer["expires_in"], answer["access_token"] = "Bearer", 3600, bearer(audience)
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

// bearer returns an unsigned token for the audience.
func bearer(audience string) string {
	encode := func(v any) string {
		data, _ := json.Marshal(v) // of maps of strings and numbers
		return base64.RawURLEncoding.EncodeToString(data)
	}
	now := time.Now().Unix()
	claims := map[string]any{
		"aud": audience, "iss": "https://sts.windows.net/" + tenant + "/", "iat": now - 60, "nbf": now - 60, "exp": now + 3600,
		"oid": "66666666-7777-8888-9999-000000000000", "tid": tenant, "ver": "1.0",
	}
	return fmt.Sprintf("%s.%s.%s", encode(map[string]any{"alg": "RS256", "typ": "JWT"}), encode(claims), encode("unsigned"))
}
