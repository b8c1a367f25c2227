package devbus

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// The administration clients of the SDKs always speak HTTPS to the host of the
// connection string. A transport brings their requests here instead; it fits
// where azcore wants a policy.Transporter.

// AdminTransport hands requests to the broker's administration endpoint,
// without a network.
func (b *Broker) AdminTransport() *AdminTransport { return &AdminTransport{b} }

// AdminTransport is made by Broker.AdminTransport.
type AdminTransport struct{ b *Broker }

// Do answers a request, or fails as a network would.
func (t *AdminTransport) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer r.Body.Close()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	a, err := t.b.administer(r)
	if err != nil {
		return nil, err
	}
	body := a.encode()
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)),
		StatusCode: a.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {contentType}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}

// PlainTransport sends requests by HTTP to the address of a server that serves
// Broker.Admin, whatever host they name.
type PlainTransport struct {
	Address string       // such as 127.0.0.1:5300
	Client  *http.Client // nil: http.DefaultClient
}

// Do sends a request.
func (t PlainTransport) Do(r *http.Request) (*http.Response, error) {
	plain := r.Clone(r.Context())
	plain.URL.Scheme, plain.URL.Host, plain.Host = "http", t.Address, ""
	client := t.Client
	if client == nil {
		client = http.DefaultClient
	}
	return client.Do(plain)
}
