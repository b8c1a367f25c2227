package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"kennel/internal/retryafter"
)

// The limits of sending. The SDK has one as well: OTEL_BSP_EXPORT_TIMEOUT, by
// default 30 seconds for a batch with all its attempts.
const (
	retryTime  = time.Minute     // a batch is not sent again later
	firstPause = 5 * time.Second // before the second attempt; each is half longer
	maxPause   = 30 * time.Second
	maxAnswer  = 64 << 10 // how much of an answer is read, in bytes
)

// contentType is that of requests, and of answers that are read.
const contentType = "application/x-protobuf"

// collector is where and how spans are sent.
type collector struct {
	address *url.URL
	headers map[string]string // often keys
	gzip    bool
	timeout time.Duration // of one request
	tls     *tls.Config   // nil is the default
}

// sender sends spans to a collector by OTLP over HTTP. Where the collector is
// busy or slow it tries again.
type sender struct {
	to     *collector
	shown  string // the address without user and query, which may be secrets
	client *http.Client
	agent  string
}

func newSender(to *collector, userAgent string) *sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if to.tls != nil {
		transport.TLSClientConfig = to.tls
	}
	return &sender{
		to:    to,
		shown: (&url.URL{Scheme: to.address.Scheme, Host: to.address.Host, Path: to.address.Path}).String(),
		client: &http.Client{
			Transport: transport,
			// Most redirects turn a request into a GET, whose success would look
			// as if the spans were taken, and keys would go to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		agent: userAgent,
	}
}

// Shutdown implements [sdk.SpanExporter]. No spans are being sent at that time.
func (s *sender) Shutdown(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}

// ExportSpans implements [sdk.SpanExporter].
func (s *sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	body := encode(spans)
	if s.to.gzip {
		body = compressed(body)
	}
	began := time.Now()
	for pause := firstPause; ; pause = min(pause*3/2, maxPause) {
		err := s.post(ctx, body)
		again, ok := errors.AsType[*temporary](err)
		if !ok {
			return err
		}
		wait := max(again.after, pause/2+rand.N(pause))
		if time.Since(began)+wait > retryTime {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(wait):
		}
	}
}

// temporary is a failure after which the same spans are sent again.
type temporary struct {
	error
	after time.Duration // how long the collector wants to be left alone
}

func (s *sender) post(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.to.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.to.address.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", s.agent)
	for name, text := range s.to.headers {
		request.Header.Set(name, text)
	}
	request.Header.Set("Content-Type", contentType)
	if s.to.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := s.client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok { // which has the whole address
		err = fmt.Errorf("failed to send to %s: %w", s.shown, failed.Err)
		if failed.Timeout() {
			return &temporary{error: err}
		}
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // the status decides
	if answer.StatusCode/100 == 2 {
		if media, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); media != contentType {
			return nil
		}
		return partialSuccess(text)
	}
	err = fmt.Errorf("failed to send to %s: %s (body: %s)", s.shown, answer.Status, cmp.Or(string(bytes.TrimSpace(text)), "empty"))
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &temporary{err, retryafter.Parse(answer.Header.Get("Retry-After"), time.Now())}
	}
	return err
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(body) // a buffer takes everything
	w.Close()
	return b.Bytes()
}

// partly is the answer of a collector that did not take all spans, or that has
// something to remark.
type partly struct {
	rejected int // spans
	remark   string
}

func (p *partly) Error() string {
	return fmt.Sprintf("the collector rejected %d spans: %s", p.rejected, cmp.Or(p.remark, "it gives no reason"))
}

// partialSuccess reads an ExportTraceServiceResponse. One that cannot be read is
// no failure, because the status says that the spans were taken.
func partialSuccess(answer []byte) error {
	var p partly
	for f := range fields(answer) {
		if f.number != 1 {
			continue
		}
		for f := range fields(f.bytes) {
			switch f.number {
			case 1:
				p.rejected = int(min(f.varint, math.MaxInt32))
			case 2:
				p.remark = string(f.bytes)
			}
		}
	}
	if p == (partly{}) {
		return nil
	}
	return &p
}

// field is a field of a message of protobuf.
type field struct {
	number uint64
	varint uint64
	bytes  []byte // of the types with a length
}

// fields returns the fields of a message up to its end, or to the first error.
func fields(m []byte) func(yield func(field) bool) {
	return func(yield func(field) bool) {
		for len(m) > 0 {
			tag, n := binary.Uvarint(m)
			if n <= 0 {
				return
			}
			m = m[n:]
			f := field{number: tag >> 3}
			size := uint64(0)
			switch tag & 7 {
			case varintType:
				if f.varint, n = binary.Uvarint(m); n <= 0 {
					return
				}
				m = m[n:]
			case fixed64Type:
				size = 8
			case fixed32Type:
				size = 4
			case lengthType:
				if size, n = binary.Uvarint(m); n <= 0 {
					return
				}
				m = m[n:]
			default:
				return
			}
			if size > uint64(len(m)) {
				return
			}
			f.bytes, m = m[:size], m[size:]
			if !yield(f) {
				return
			}
		}
	}
}
