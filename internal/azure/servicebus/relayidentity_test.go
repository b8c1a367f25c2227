package servicebus

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"kennel/internal/dev/devbus"
	"kennel/relay"
)

// credentialFunc is a credential for tests.
type credentialFunc func(ctx context.Context) (azcore.AccessToken, error)

func (f credentialFunc) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return f(ctx)
}

// TestRelayByIdentity: a namespace is reached by host name and identity, too. A
// refused sign-in is the fault of the client; one that is not answered is like a
// bus that does not answer.
func TestRelayByIdentity(t *testing.T) {
	request, _ := http.NewRequest(http.MethodGet, "https://login.example/token", nil)
	for name, tt := range map[string]struct {
		credential credentialFunc
		want       relay.Class // 0: it works
		after      time.Duration
	}{
		"token": {func(context.Context) (azcore.AccessToken, error) {
			return azcore.AccessToken{Token: "token", ExpiresOn: time.Now().Add(time.Hour)}, nil
		}, 0, 0},
		"refused": {func(context.Context) (azcore.AccessToken, error) {
			return azcore.AccessToken{}, &azidentity.AuthenticationFailedError{RawResponse: &http.Response{StatusCode: 400, Body: http.NoBody, Request: request}}
		}, relay.Denied, 0},
		"unreachable": {func(context.Context) (azcore.AccessToken, error) {
			return azcore.AccessToken{}, errors.New("no route to host")
		}, relay.Unavailable, 0},
		"stuck": {func(ctx context.Context) (azcore.AccessToken, error) {
			<-ctx.Done()
			return azcore.AccessToken{}, ctx.Err()
		}, relay.Unavailable, 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
				o := inProcess(b)
				o.Credential = tt.credential
				r, err := Namespace{Host: "contoso.servicebus.windows.net"}.OpenRelay(o)
				if err != nil {
					t.Fatal(err)
				}
				c, err := r.Connect()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close(context.Background())
				calls := map[string]func(ctx context.Context) error{
					"send":   func(ctx context.Context) error { return c.Send(ctx, orders, text("x")) },
					"ping":   func(ctx context.Context) error { return c.Ping(ctx, orders) },
					"ensure": func(ctx context.Context) error { return r.Ensure(ctx, backlog) },
				}
				for what, call := range calls {
					began := time.Now()
					err := call(within(t, 4*time.Second))
					if tt.want == 0 && err != nil {
						t.Errorf("%s: %v", what, err)
					} else if tt.want != 0 {
						wantClass(t, what, err, tt.want)
					}
					after := tt.after
					if what == "ensure" && after > 0 {
						after = requestTimeout // the SDK does not pass its context on
					}
					if took := time.Since(began); took < after || took > after+100*time.Millisecond {
						t.Errorf("%s took %v, want %v", what, took, after)
					}
				}
			})
		})
	}
}
