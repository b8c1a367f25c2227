package servicebus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/azure/identity"
)

// Namespace says which Service Bus namespace to use and how to sign in: by
// connection string, or by its host name and an identity.
type Namespace struct {
	ConnectionString string // with UseDevelopmentEmulator=true, an emulator without TLS

	Host string // without a connection string: NAME.servicebus.windows.net

	// As in [identity.New].
	ManagedIdentity bool
	ClientID        string
}

// Options are the optional parts of a bus's clients; nil means the
// defaults.
type Options struct {
	// Dial connects to the namespace. Default: over TCP, with TLS unless it is
	// an emulator.
	Dial func(ctx context.Context) (net.Conn, error)

	// Admin sends the requests that administer the namespace. Default: the
	// SDK's own client.
	Admin policy.Transporter
}

// busClients makes clients of one namespace.
type busClients struct {
	connection string // "": by namespace and identity
	namespace  string
	credential azcore.TokenCredential
	dial       func(ctx context.Context) (net.Conn, error)
	admin      *admin.Client
}

// adminTimeout bounds a request that administers the namespace.
const adminTimeout = 10 * time.Second

// open checks the bus. It makes no request.
func (b Namespace) open(o *Options) (*busClients, error) {
	if o == nil {
		o = &Options{}
	}
	connection, host, emulated := tidy(b.ConnectionString)
	c := &busClients{connection: connection, namespace: b.Host, dial: o.Dial}
	if connection == "" {
		host = b.Host
	}
	if c.dial == nil {
		c.dial = dialer(host, emulated)
	}
	options := &admin.ClientOptions{}
	options.Telemetry.ApplicationID = "kennel"
	options.Retry = policy.RetryOptions{MaxRetries: -1, TryTimeout: adminTimeout} // 0 would be the default of three
	switch {
	case o.Admin != nil:
		options.Transport = o.Admin
	case emulated:
		options.Transport = plainly{}
	}
	var err error
	if connection != "" {
		if c.admin, err = admin.NewClientFromConnectionString(connection, options); err != nil {
			// The SDK's text may repeat parts of the connection string.
			return nil, errors.New("open Service Bus: the connection string is malformed")
		}
	} else {
		if c.credential, err = identity.New(b.ManagedIdentity, b.ClientID); err != nil {
			return nil, fmt.Errorf("open Service Bus: %w", err)
		}
		if c.admin, err = admin.NewClient(b.Host, c.credential, options); err != nil {
			return nil, fmt.Errorf("open Service Bus: %w", err)
		}
	}
	if _, err := c.connect(azservicebus.RetryOptions{}); err != nil {
		return nil, errors.New("open Service Bus: the connection string or the name of the namespace is malformed")
	}
	return c, nil
}

// tidy writes a connection string in the one form that the SDK's parser and
// ours agree on: without blanks around, and with a scheme in lower case. It
// returns where the string leads, too.
func tidy(connection string) (tidied, host string, emulated bool) {
	var parts []string
	for part := range strings.SplitSeq(connection, ";") {
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case name == "" && value == "":
			continue
		case strings.EqualFold(name, "Endpoint"):
			if u, err := url.Parse(value); err == nil {
				u.Scheme, host = strings.ToLower(u.Scheme), u.Host
				value = u.String()
			}
		case strings.EqualFold(name, "UseDevelopmentEmulator"):
			if emulated = strings.EqualFold(value, "true"); !emulated {
				continue
			}
			name, value = "UseDevelopmentEmulator", "true"
		}
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, ";"), host, emulated
}

// Where emulators listen that do not say so: one port for messages, another
// for administration.
const (
	emulatorPort      = 5672
	emulatorAdminPort = 5300
)

// dialer connects to where the SDK would.
func dialer(host string, emulated bool) func(ctx context.Context) (net.Conn, error) {
	if emulated {
		address := withPort(host, emulatorPort)
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
	}
	const port = 5671 // AMQP over TLS
	address := withPort(host, port)
	return func(ctx context.Context) (net.Conn, error) {
		return (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
	}
}

func withPort(host string, otherwise int) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(otherwise))
}

// plainly sends requests without TLS. The SDK's client for administration
// always wants it, even for an emulator.
type plainly struct{}

// local keeps no connection open: there are minutes between two requests.
var local = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (plainly) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", withPort(r.URL.Host, emulatorAdminPort)
	return local.Do(r)
}
