package azure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Bus says which Service Bus namespace to use and how to sign in: by
// connection string, or by its host name and an identity.
type Bus struct {
	ConnectionString string // with UseDevelopmentEmulator=true, a devbus on one address of this machine

	Namespace string // without a connection string: NAME.servicebus.windows.net

	// As in [Account].
	ManagedIdentity bool
	ClientID        string
}

// BusOptions are the optional parts of a bus's clients; nil means the
// defaults.
type BusOptions struct {
	// Dial connects to the namespace. Default: over TCP, with TLS.
	Dial func(ctx context.Context) (net.Conn, error)

	// Admin sends the requests that administer the namespace. Default: the
	// SDK's own client.
	Admin policy.Transporter
}

// busClients makes clients of one namespace.
type busClients struct {
	bus      Bus
	identity azcore.TokenCredential // nil with a connection string
	options  azservicebus.ClientOptions
	admin    *admin.Client
}

// quickly makes the SDK reconnect at all, and soon: it does so only before a
// retry, and by default waits for four seconds before the first, which is
// longer than most of our deadlines.
var quickly = azservicebus.RetryOptions{MaxRetries: 1, RetryDelay: 50 * time.Millisecond}

// open checks the bus. It makes no request.
func (b Bus) open(o *BusOptions) (*busClients, error) {
	if o == nil {
		o = &BusOptions{}
	}
	c := &busClients{bus: b, options: azservicebus.ClientOptions{ApplicationID: "kennel", RetryOptions: quickly}}
	if o.Dial != nil {
		c.options.NewWebSocketConn = func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			return o.Dial(ctx) // the SDK speaks plain AMQP on it
		}
	}
	common, _ := clientOptions(nil)
	adminOptions := &admin.ClientOptions{ClientOptions: common}
	switch {
	case o.Admin != nil:
		adminOptions.Transport = o.Admin
	case isEmulator(b.ConnectionString):
		adminOptions.Transport = plainly{}
	}
	var err error
	if b.ConnectionString != "" {
		if c.admin, err = admin.NewClientFromConnectionString(b.ConnectionString, adminOptions); err != nil {
			// The SDK's text may repeat parts of the connection string.
			return nil, errors.New("open Service Bus: the connection string is malformed")
		}
	} else {
		if c.identity, err = identity(b.ManagedIdentity, b.ClientID); err != nil {
			return nil, fmt.Errorf("open Service Bus: %w", err)
		}
		if c.admin, err = admin.NewClient(b.Namespace, c.identity, adminOptions); err != nil {
			return nil, fmt.Errorf("open Service Bus: %w", err)
		}
	}
	if _, err := c.connect(); err != nil {
		return nil, errors.New("open Service Bus: the connection string or the name of the namespace is malformed")
	}
	return c, nil
}

// connect returns a new client, which has a connection of its own. It connects
// when it is first used.
func (c *busClients) connect() (*azservicebus.Client, error) {
	options := c.options // a copy, because the SDK keeps it
	if c.identity == nil {
		return azservicebus.NewClientFromConnectionString(c.bus.ConnectionString, &options)
	}
	return azservicebus.NewClient(c.bus.Namespace, c.identity, &options)
}

// closeWithin bounds a client's goodbye, which a broken connection would
// otherwise hold up.
const closeWithin = time.Second

func (*busClients) close(client *azservicebus.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	_ = client.Close(ctx) // whatever is wrong with it, it is of no use any more
}

// isEmulator says that a connection string is for this machine, where nothing
// is encrypted.
func isEmulator(connection string) bool {
	for setting := range strings.SplitSeq(connection, ";") {
		name, value, _ := strings.Cut(setting, "=")
		if strings.EqualFold(strings.TrimSpace(name), "UseDevelopmentEmulator") {
			return strings.EqualFold(strings.TrimSpace(value), "true")
		}
	}
	return false
}

// plainly sends requests without TLS. The SDK's client for administration
// always wants it, even for an emulator.
type plainly struct{}

// local keeps no connection open: there are minutes between two requests.
var local = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (plainly) Do(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return local.Do(r)
}
