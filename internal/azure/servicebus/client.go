package servicebus

import (
	"context"
	"net"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	busTimeout  = 5 * time.Second // for each request
	closeWithin = time.Second     // for a client's goodbye
)

// busClient is a client of the SDK with connections of its own, which can be
// cut: on one that fell silent the SDK waits up to a minute at times, whatever
// the context says.
type busClient struct {
	*azservicebus.Client
	cut context.CancelFunc // ends its connections and attempts to connect or sign in, and all later ones
}

// connect returns a new client. It connects when it is first used.
func (c *busClients) connect(retry azservicebus.RetryOptions) (*busClient, error) {
	life, cut := context.WithCancel(context.Background())
	options := &azservicebus.ClientOptions{
		ApplicationID: "kennel",
		RetryOptions:  retry,
		// The SDK speaks plain AMQP on whatever comes from here.
		NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
			ctx, cancel := during(ctx, life)
			defer cancel()
			conn, err := c.dial(ctx)
			if err != nil {
				return nil, err
			}
			context.AfterFunc(life, func() { conn.Close() })
			return conn, nil
		},
	}
	var client *azservicebus.Client
	var err error
	if c.connection != "" {
		client, err = azservicebus.NewClientFromConnectionString(c.connection, options)
	} else {
		client, err = azservicebus.NewClient(c.namespace, mortal{c.credential, life}, options)
	}
	if err != nil {
		cut()
		return nil, err
	}
	return &busClient{client, cut}, nil
}

// close says goodbye, and cuts what does not hear it.
func (c *busClient) close() {
	timer := time.AfterFunc(closeWithin, c.cut)
	defer timer.Stop()
	_ = c.Client.Close(context.Background()) // whatever is wrong with it, it is of no use any more
	c.cut()
}

// mortal is an identity that a client signs in as during its life. The SDK
// asks it without a deadline.
type mortal struct {
	azcore.TokenCredential
	life context.Context
}

func (m mortal) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ctx, cancel := during(ctx, m.life)
	defer cancel()
	return m.TokenCredential.GetToken(ctx, o)
}

// during is for one request in a client's life.
func during(ctx, life context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, busTimeout)
	stop := context.AfterFunc(life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}
