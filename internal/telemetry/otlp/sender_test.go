package otlp

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/encoding/protowire"

	"kennel/internal/otlptest"
)

// network is a network whose answers a test decides.
type network func(*http.Request) (*http.Response, error)

func (n network) RoundTrip(r *http.Request) (*http.Response, error) { return n(r) }

func oneSpan() []sdk.ReadOnlySpan {
	return []sdk.ReadOnlySpan{tracetest.SpanStub{Name: "request"}.Snapshot()}
}

// reply is one that a collector gives: a status with Retry-After, or "hangs",
// or "gone".
type reply struct {
	status string
	after  string
}

func (a reply) give(r *http.Request) (*http.Response, error) {
	switch a.status {
	case "hangs":
		<-r.Context().Done()
		return nil, r.Context().Err()
	case "gone":
		return nil, errors.New("connection refused")
	}
	var status int
	fmt.Sscan(a.status, &status)
	return &http.Response{StatusCode: status, Status: a.status, Header: http.Header{"Retry-After": {a.after}, "Location": {"/"}}, Body: io.NopCloser(strings.NewReader("out of disk\n"))}, nil
}

// TestRepeats: spans are sent again where the collector is busy or slow, as late
// as it requests, and for a minute at most.
func TestRepeats(t *testing.T) {
	for _, tt := range []struct {
		name     string
		replies  []reply // the last one repeats
		attempts int     // 0 for some
		min, max time.Duration
		failed   string // "" if the spans are sent
	}{
		{"taken", []reply{{status: "200"}}, 1, 0, 0, ""},
		{"busy twice", []reply{{status: "503"}, {status: "502"}, {status: "200"}}, 3, 6250 * time.Millisecond, 18750 * time.Millisecond, ""},
		{"busy for some time", []reply{{"429", "20"}, {status: "202"}}, 2, 20 * time.Second, 20 * time.Second, ""},
		{"busy until", []reply{{"504", "Sat, 01 Jan 2000 00:00:30 GMT"}, {status: "200"}}, 2, 30 * time.Second, 30 * time.Second, ""},
		{"busy since", []reply{{"503", "Sat, 01 Jan 1999 00:00:30 GMT"}, {status: "200"}}, 2, 2500 * time.Millisecond, 7500 * time.Millisecond, ""},
		{"busy for long", []reply{{"503", "61"}}, 1, 0, 0, "failed to send to http://collector/v1/traces: 503 (body: out of disk)"},
		{"busy for ever", []reply{{"503", "99999999999999999999"}}, 1, 0, 0, "503"},
		{"always busy", []reply{{status: "503"}}, 0, 20 * time.Second, retryTime, "503"}, // until the next wait, of up to 38 s, would be too long
		{"hangs once", []reply{{status: "hangs"}, {status: "200"}}, 2, 12500 * time.Millisecond, 17500 * time.Millisecond, ""},
		{"hangs", []reply{{status: "hangs"}}, 0, 30 * time.Second, retryTime + defaultTimeout, "deadline exceeded"},
		{"gone", []reply{{status: "gone"}}, 1, 0, 0, "connection refused"},
		{"wrong", []reply{{"400", "1"}}, 1, 0, 0, "400"},
		{"without right", []reply{{status: "401"}}, 1, 0, 0, "401"},
		{"broken", []reply{{status: "500"}}, 1, 0, 0, "500"},
		{"elsewhere", []reply{{status: "307"}}, 1, 0, 0, "307"},
		{"elsewhere with GET", []reply{{status: "302"}}, 1, 0, 0, "302"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSender(&collector{address: &url.URL{Scheme: "http", Host: "collector", Path: "/v1/traces"}, timeout: defaultTimeout}, "kennel/1.2.3")
				attempts := 0
				s.client.Transport = network(func(r *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(r.Body)
					if err != nil || !bytes.Equal(body, encode(oneSpan())) || r.Method != http.MethodPost {
						t.Errorf("attempt %d: %s %x, %v", attempts, r.Method, body, err)
					}
					attempts++
					return tt.replies[min(attempts, len(tt.replies))-1].give(r)
				})
				began := time.Now()
				err := s.ExportSpans(t.Context(), oneSpan())
				took := time.Since(began)
				if took < tt.min || took > tt.max || tt.attempts > 0 && attempts != tt.attempts || attempts > 20 {
					t.Errorf("%d attempts in %v, want %d in %v to %v", attempts, took, tt.attempts, tt.min, tt.max)
				}
				if (err == nil) != (tt.failed == "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
					t.Errorf("error %v, want %q", err, tt.failed)
				}
			})
		})
	}
}

// TestExportEnds: an export ends with its context, in an attempt and between
// two.
func TestExportEnds(t *testing.T) {
	for _, status := range []string{"hangs", "503"} {
		synctest.Test(t, func(t *testing.T) {
			s := newSender(&collector{address: &url.URL{Scheme: "http", Host: "collector"}, timeout: time.Hour}, "")
			s.client.Transport = network(reply{status, "50"}.give)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			began := time.Now()
			if err := s.ExportSpans(ctx, oneSpan()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 30*time.Second {
				t.Errorf("%s: ended after %v with %v", status, time.Since(began), err)
			}
		})
	}
}

// TestRequest: the address, the headers and the compression of the settings.
func TestRequest(t *testing.T) {
	for _, tt := range []struct {
		settings, url string
		header        http.Header
	}{
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c", "http://c/v1/traces", http.Header{"User-Agent": {"kennel/1.2.3"}}},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:1/", "http://c:1/v1/traces", nil},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://c/otlp/", "https://c/otlp/v1/traces", nil},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://other OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c", "http://c", nil},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://c/a/b?key=secret", "http://c/a/b?key=secret", nil},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://user:secret@c/a", "http://user:secret@c/a", http.Header{"Authorization": {"Basic dXNlcjpzZWNyZXQ="}}},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_HEADERS=api-key=se%20cret%3D,x=+,Content-Type=y,User-Agent=z", "http://c/v1/traces",
			http.Header{"Api-Key": {"se cret="}, "X": {"+"}, "User-Agent": {"z"}}},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_HEADERS=a=b OTEL_EXPORTER_OTLP_TRACES_HEADERS=c=d", "http://c/v1/traces", http.Header{"A": nil, "C": {"d"}}},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "http://c/v1/traces", http.Header{"Content-Encoding": {"gzip"}}},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_COMPRESSION=gzip OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=none", "http://c/v1/traces", http.Header{"Content-Encoding": nil}},
	} {
		t.Run(tt.settings, func(t *testing.T) {
			to := requested(settings(tt.settings), slog.New(slog.DiscardHandler))
			if to == nil {
				t.Fatal("traces are off")
			}
			s := newSender(to, "kennel/1.2.3")
			s.client.Transport = network(func(r *http.Request) (*http.Response, error) {
				if r.URL.String() != tt.url || r.Header.Get("Content-Type") != contentType {
					t.Errorf("to %s, type %s", r.URL, r.Header.Get("Content-Type"))
				}
				for name, want := range tt.header {
					if got := r.Header.Values(name); strings.Join(got, "|") != strings.Join(want, "|") {
						t.Errorf("%s: %q, want %q", name, got, want)
					}
				}
				return nil, errors.New("no network")
			})
			if err := s.ExportSpans(t.Context(), oneSpan()); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "to http") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func settings(list string) map[string]string {
	env := make(map[string]string)
	for setting := range strings.FieldsSeq(list) {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	return env
}

// TestTimeout: a collector that is too slow for the settings.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := requested(settings("OTEL_EXPORTER_OTLP_ENDPOINT=http://c OTEL_EXPORTER_OTLP_TIMEOUT=1 OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=1500"), slog.New(slog.DiscardHandler))
		s := newSender(to, "")
		s.client.Transport = network(reply{status: "hangs"}.give)
		began := time.Now()
		if err := s.post(t.Context(), nil); time.Since(began) != 1500*time.Millisecond {
			t.Errorf("ended after %v with %v", time.Since(began), err)
		}
	})
}

// TestCertificates sends to a collector with a certificate of its own that
// demands one of the sender.
func TestCertificates(t *testing.T) {
	received := &otlptest.Endpoint{}
	server := httptest.NewUnstartedServer(received)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, private := write("cert.pem", "CERTIFICATE", server.Certificate().Raw), write("key.pem", "PRIVATE KEY", key)
	to := "OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL
	ca := " OTEL_EXPORTER_OTLP_CERTIFICATE=" + cert
	own := " OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=" + cert + " OTEL_EXPORTER_OTLP_CLIENT_KEY=" + private
	for _, tt := range []struct {
		settings string
		sent     bool
	}{{to, false}, {to + ca, false}, {to + own, false}, {to + ca + own, true}} {
		s := newSender(requested(settings(tt.settings), slog.New(slog.DiscardHandler)), "")
		if err := s.ExportSpans(t.Context(), oneSpan()); (err == nil) != tt.sent || (len(received.Spans()) == 1) != tt.sent {
			t.Errorf("%s: received %v, error %v", tt.settings, received.Spans(), err)
		}
		s.Shutdown(t.Context())
	}
}

// TestPartialSuccess: a collector that takes a part of the spans, or that has a
// remark, is a line in the log with the number of those that are lost.
func TestPartialSuccess(t *testing.T) {
	answer := func(rejected uint64, remark string) []byte {
		part := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), rejected)
		part = protowire.AppendString(protowire.AppendTag(part, 2, protowire.BytesType), remark)
		of := protowire.AppendFixed64(protowire.AppendTag(nil, 7, protowire.Fixed64Type), 1) // of a later version
		of = protowire.AppendFixed32(protowire.AppendTag(of, 8, protowire.Fixed32Type), 1)
		return protowire.AppendBytes(protowire.AppendTag(of, 1, protowire.BytesType), part)
	}
	for _, tt := range []struct {
		name, media string
		answer      []byte
		log         string
	}{
		{"nothing", contentType, nil, ""},
		{"success", contentType, answer(0, ""), ""},
		{"some", contentType, answer(2, "too old"), `"spans":2,"error":"the collector rejected 2 spans: too old"`},
		{"no reason", contentType + "; charset=x", answer(1, ""), `"spans":1,"error":"the collector rejected 1 spans: it gives no reason"`},
		{"more than sent", contentType, answer(1<<63, "a"), `"spans":3`},
		{"a remark", contentType, answer(0, "use gRPC"), `"msg":"the collector took the traces with a remark","remark":"use gRPC"`},
		{"JSON", "application/json", answer(2, "too old"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.media)
				w.Write(tt.answer)
			}))
			defer server.Close()
			var log bytes.Buffer
			e := FromEnvironment(settings("OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL), "", slog.New(slog.NewJSONHandler(&log, nil)))
			if err := e.ExportSpans(t.Context(), slices.Repeat(oneSpan(), 3)); err != nil {
				t.Error(err)
			}
			if (tt.log == "") != (log.Len() == 0) || !strings.Contains(log.String(), tt.log) {
				t.Errorf("log %s, want %q", &log, tt.log)
			}
		})
	}
	whole := answer(300, "too old")
	for i := range whole {
		partialSuccess(whole[:i])
		partialSuccess(append(bytes.Clone(whole[:i]), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01))
	}
}

// FuzzPartialSuccess reads an answer of any bytes, and its fields as the
// protocol's authors do.
func FuzzPartialSuccess(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\x0a\x09\x08\x02\x12\x05early\x39\x01\x00\x00\x00\x00\x00\x00\x00\x45\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		partialSuccess(answer)
		rest := answer
		for f := range fields(answer) {
			number, wire, n := protowire.ConsumeTag(rest)
			if n < 0 {
				return // a number that no field can have
			}
			var varint uint64
			size := protowire.ConsumeFieldValue(number, wire, rest[n:])
			value := rest[n:max(n, n+size)]
			switch wire {
			case protowire.VarintType:
				varint, _ = protowire.ConsumeVarint(value)
				value = nil
			case protowire.BytesType:
				value, _ = protowire.ConsumeBytes(value)
			}
			if size < 0 || f.number != uint64(number) || f.varint != varint || !bytes.Equal(f.bytes, value) {
				t.Fatalf("field %+v, want %d %d %x (%v)", f, number, varint, value, protowire.ParseError(size))
			}
			rest = rest[n+size:]
		}
		if _, wire, n := protowire.ConsumeTag(rest); n > 0 && wire != protowire.StartGroupType && protowire.ConsumeFieldValue(1, wire, rest[n:]) >= 0 {
			t.Fatalf("the fields end before %x", rest)
		}
	})
}

// TestRedirects: a redirect is a failure, because a client follows most with a
// GET, whose success would look as if the spans were taken.
func TestRedirects(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/traces", http.RedirectHandler("/login", http.StatusFound))
	mux.HandleFunc("GET /login", func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	server := httptest.NewServer(mux)
	defer server.Close()
	s := newSender(requested(settings("OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL), slog.New(slog.DiscardHandler)), "")
	if err := s.ExportSpans(t.Context(), oneSpan()); err == nil || !strings.Contains(err.Error(), "302 Found") {
		t.Errorf("error %v", err)
	}
}
