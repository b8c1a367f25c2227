package servicebus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"kennel/internal/azure/identity"
	"kennel/internal/azure/requests"
	"kennel/internal/version"
)

// Namespace identifies a Service Bus namespace and how to sign in to it: by
// connection string, or by host name and identity.
type Namespace struct {
	ConnectionString string // with UseDevelopmentEmulator=true, an emulator without TLS

	Host string // without a connection string: NAME.servicebus.windows.net

	// As in [identity.New].
	ManagedIdentity bool
	ClientID        string
}

// Options are the optional parts of a client; nil and zero mean the defaults.
type Options struct {
	// Dial connects to the namespace. Default: over TCP, with TLS unless the
	// namespace is an emulator.
	Dial func(ctx context.Context) (net.Conn, error)

	// Admin sends administrative requests. Default: the SDK's own client.
	Admin policy.Transporter

	// Credential signs in without a connection string. Default: the identity of
	// the namespace.
	Credential azcore.TokenCredential

	// Requests counts the operations of Service Bus, for the job "signals" or
	// "relay". Default: none.
	Requests *requests.Counter
}

// connector creates clients of one namespace.
type connector struct {
	connection string // connection string; "": by host and credential
	host       string
	credential azcore.TokenCredential
	dial       func(ctx context.Context) (net.Conn, error)
	admin      *admin.Client
	requests   *requests.Counter // nil: operations are not counted
	job        string            // … for this one
}

const (
	adminTimeout   = 10 * time.Second // for each administrative request
	requestTimeout = 5 * time.Second  // for each other request
	closeTimeout   = time.Second      // to close a client in order
)

// open checks the namespace. It makes no request.
func (n Namespace) open(options *Options) (*connector, error) {
	var opt Options
	if options != nil {
		opt = *options
	}
	connection := blanks.ReplaceAllString(strings.TrimSpace(n.ConnectionString), "$1")
	host, emulator := endpoint(connection)
	if connection == "" {
		host = n.Host
	}
	c := &connector{connection: connection, host: host, dial: opt.Dial, requests: opt.Requests}
	if c.dial == nil {
		c.dial = dialer(host, emulator)
	}
	client := &admin.ClientOptions{}
	client.Telemetry.ApplicationID = version.UserAgent()
	client.Retry = policy.RetryOptions{MaxRetries: -1, TryTimeout: adminTimeout} // 0 means the default of three
	switch {
	case opt.Admin != nil:
		client.Transport = opt.Admin
	case emulator:
		client.Transport = plainHTTP{}
	}
	var err error
	if connection != "" {
		c.admin, err = admin.NewClientFromConnectionString(connection, client)
	} else {
		if c.credential = opt.Credential; c.credential == nil {
			if c.credential, err = identity.New(n.ManagedIdentity, n.ClientID); err != nil {
				return nil, fmt.Errorf("open Service Bus: %w", err)
			}
		}
		c.admin, err = admin.NewClient(host, boundCredential{c.credential, context.Background()}, client)
	}
	if err != nil || host == "" {
		// The SDK's text may repeat parts of the connection string.
		return nil, errors.New("open Service Bus: the connection string or the host name of the namespace is malformed")
	}
	return c, nil
}

// count counts operations of a kind.
func (c *connector) count(operation string, n int) {
	if c.requests != nil && n > 0 {
		c.requests.AddAll(requests.Label{Service: requests.Bus, Operation: operation, Job: c.job}, int64(n))
	}
}

// client is a client of the SDK that can be cut off. On a connection that
// became silent the SDK may wait up to a minute, even if its context ends.
type client struct {
	*azservicebus.Client
	cut context.CancelFunc // closes all connections and fails all later attempts to connect or to sign in
}

// newClient returns a client that connects when it is first used.
func (c *connector) newClient(retry azservicebus.RetryOptions) (*client, error) {
	life, cut := context.WithCancel(context.Background())
	options := &azservicebus.ClientOptions{
		ApplicationID: version.UserAgent(),
		RetryOptions:  retry,
		// The SDK speaks plain AMQP on the connection that this returns.
		NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			ctx, cancel := requestContext(ctx, life)
			defer cancel()
			conn, err := c.dial(ctx)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(life, func() { conn.Close() })
			return conn, nil
		},
	}
	var sdk *azservicebus.Client
	var err error
	if c.connection != "" {
		sdk, err = azservicebus.NewClientFromConnectionString(c.connection, options)
	} else {
		sdk, err = azservicebus.NewClient(c.host, boundCredential{c.credential, life}, options)
	}
	if err != nil {
		cut()
		return nil, err
	}
	return &client{sdk, cut}, nil
}

// close closes the client in order, or cuts it off after closeTimeout.
func (c *client) close() {
	timer := time.AfterFunc(closeTimeout, c.cut)
	defer timer.Stop()
	_ = c.Client.Close(context.Background()) // the client is discarded in any case
	c.cut()
}

// boundCredential bounds token requests, and cancels them when life ends: that
// of the client. The SDK calls GetToken without a deadline.
type boundCredential struct {
	azcore.TokenCredential
	life context.Context
}

func (b boundCredential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ctx, cancel := requestContext(ctx, b.life)
	defer cancel()
	return b.TokenCredential.GetToken(ctx, o)
}

// requestContext returns a context for one request, which also ends with life.
func requestContext(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	stop := context.AfterFunc(life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// blanks matches white space around separators, which the SDK does not ignore.
var blanks = regexp.MustCompile(`\s*([;=])\s*`)

// endpoint returns the host of a connection string and whether it is an
// emulator. It follows the rules of the SDK, so that both agree.
func endpoint(connection string) (host string, emulator bool) {
	for part := range strings.SplitSeq(connection, ";") {
		switch name, value, _ := strings.Cut(part, "="); {
		case strings.EqualFold(name, "Endpoint"):
			if u, err := url.Parse(value); err == nil {
				host = u.Host
			}
		case strings.EqualFold(name, "UseDevelopmentEmulator"):
			emulator, _ = strconv.ParseBool(value)
		}
	}
	return host, emulator
}

// Default ports. An emulator has one for messages and one for administration.
const (
	amqpsPort         = 5671
	emulatorPort      = 5672
	emulatorAdminPort = 5300
)

// dialer connects to the address that the SDK would use.
func dialer(host string, emulator bool) func(ctx context.Context) (net.Conn, error) {
	if emulator {
		address := withPort(host, emulatorPort)
		return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", address) }
	}
	address := withPort(host, amqpsPort)
	return func(ctx context.Context) (net.Conn, error) {
		return (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
	}
}

func withPort(host string, defaultPort int) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(defaultPort))
}

// plainHTTP sends administrative requests without TLS. The SDK always uses
// TLS, even for an emulator.
type plainHTTP struct{}

// plainClient closes each connection after its request: the next request is
// minutes away.
var plainClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (plainHTTP) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", withPort(r.URL.Host, emulatorAdminPort)
	return plainClient.Do(r)
}
