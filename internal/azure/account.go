package azure

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"kennel/internal/azure/identity"
	"kennel/internal/azure/requests"
)

// Account says which storage account to use and how to sign in: by connection
// string, or by the addresses of the services and an identity.
type Account struct {
	ConnectionString string // "UseDevelopmentStorage=true" is an Azurite on its usual ports

	// Without a connection string: https addresses, such as
	// https://ACCOUNT.blob.core.windows.net. Only those in use are needed.
	BlobURL, QueueURL, TableURL string

	// ManagedIdentity signs in as the identity assigned to the app: the one
	// with the ClientID, or else the system's. If false, the environment
	// decides, as on a developer's machine after "az login".
	ManagedIdentity bool
	ClientID        string
}

// Options are the optional parts of a client; nil and zero mean the defaults.
type Options struct {
	TryTimeout time.Duration     // how long one request may take; default 10 s
	HTTP       *http.Client      // default: the SDK's own
	Requests   *requests.Counter // counts the requests; default: none
	Job        string            // the job that requests are counted for, unless the adapter belongs to one; default ""
}

const defaultTryTimeout = 10 * time.Second

// Blobs is a client for the account's blobs. It is safe for concurrent use.
type Blobs struct {
	client *service.Client
	once   once
}

// OpenBlobs checks the account and returns a client for its blobs. It makes no
// request.
func (a Account) OpenBlobs(o *Options) (*Blobs, error) {
	options, once := clientOptions(requests.Blob, o)
	client, err := open(a, requests.Blob, a.BlobURL,
		func(connection string) (*service.Client, error) {
			return service.NewClientFromConnectionString(connection, &service.ClientOptions{ClientOptions: options})
		},
		func(address string, credential azcore.TokenCredential) (*service.Client, error) {
			return service.NewClient(address, credential, &service.ClientOptions{ClientOptions: options})
		})
	if err != nil {
		return nil, err
	}
	return &Blobs{client, once}, nil
}

// OpenQueues checks the account and returns a client for its queues. It makes
// no request.
func (a Account) OpenQueues(o *Options) (*Queues, error) {
	options, once := clientOptions(requests.Queue, o)
	client, err := open(a, requests.Queue, a.QueueURL,
		func(connection string) (*azqueue.ServiceClient, error) {
			return azqueue.NewServiceClientFromConnectionString(connection, &azqueue.ClientOptions{ClientOptions: options})
		},
		func(address string, credential azcore.TokenCredential) (*azqueue.ServiceClient, error) {
			return azqueue.NewServiceClient(address, credential, &azqueue.ClientOptions{ClientOptions: options})
		})
	if err != nil {
		return nil, err
	}
	return &Queues{client, once}, nil
}

// open makes one service's client, by connection string or by identity.
func open[Client any](a Account, name, address string,
	byConnection func(connection string) (*Client, error),
	byIdentity func(address string, credential azcore.TokenCredential) (*Client, error),
) (*Client, error) {
	if a.ConnectionString != "" {
		client, err := byConnection(expand(a.ConnectionString))
		if err != nil {
			// The SDK's text may repeat parts of the connection string.
			return nil, fmt.Errorf("open %s storage: the connection string is malformed or names no %s endpoint", name, name)
		}
		return client, nil
	}
	if address == "" {
		return nil, fmt.Errorf("open %s storage: the account has neither a connection string nor a %s address", name, name)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("open %s storage: the %s address is not of the form https://ACCOUNT.%s.core.windows.net", name, name, name)
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("open %s storage: the %s address %s is not https, and signing in by identity needs that", name, name, u)
	}
	as, err := identity.New(a.ManagedIdentity, a.ClientID)
	if err != nil {
		return nil, fmt.Errorf("open %s storage: %w", name, err)
	}
	client, err := byIdentity(address, as)
	if err != nil {
		return nil, fmt.Errorf("open %s storage: %w", name, safe(err))
	}
	return client, nil
}

// once marks requests that are tried one time only, and the job that needs
// them.
type once struct {
	timeout time.Duration
	job     string
}

// of returns the same for an adapter that belongs to a job.
func (o once) of(job string) once { return once{o.timeout, job} }

func (o once) context(ctx context.Context) context.Context {
	return policy.WithRetryOptions(requests.WithJob(ctx, o.job), o.options())
}

func (o once) options() policy.RetryOptions {
	return policy.RetryOptions{MaxRetries: -1, TryTimeout: o.timeout} // 0 would be the default of three
}

func clientOptions(service string, o *Options) (azcore.ClientOptions, once) {
	if o == nil {
		o = &Options{}
	}
	once := once{cmp.Or(max(o.TryTimeout, 0), defaultTryTimeout), o.Job}
	options := azcore.ClientOptions{Retry: once.options()}
	options.Telemetry.ApplicationID = "kennel"
	if o.HTTP != nil {
		options.Transport = o.HTTP
	}
	if o.Requests != nil {
		options.PerRetryPolicies = []policy.Policy{counting{o.Requests, service}}
	}
	return options, once
}

// counting is the step of the SDK's pipeline that counts requests. It comes
// after the retries and after the sign-in, so it sees what is really sent.
type counting struct {
	counter *requests.Counter
	service string
}

func (c counting) Do(r *policy.Request) (*http.Response, error) {
	raw := r.Raw()
	c.counter.Add(requests.Label{
		Service:   c.service,
		Operation: requests.Operation(c.service, raw.Method, raw.URL),
		Job:       requests.Job(raw.Context()),
	})
	return r.Next()
}

// expand writes the shorthand for a local emulator in full, which the SDK does
// not know. The key is the same for every Azurite in the world, printed in its
// documentation, and no secret.
func expand(connection string) string {
	settings := strings.Split(connection, ";")
	if !slices.Contains(settings, "UseDevelopmentStorage=true") {
		return connection
	}
	host := "http://127.0.0.1"
	for _, setting := range settings {
		if proxy, ok := strings.CutPrefix(setting, "DevelopmentStorageProxyUri="); ok {
			host = strings.TrimRight(proxy, "/")
		}
	}
	return "AccountName=devstoreaccount1" +
		";AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==" +
		";BlobEndpoint=" + host + ":10000/devstoreaccount1" +
		";QueueEndpoint=" + host + ":10001/devstoreaccount1" +
		";TableEndpoint=" + host + ":10002/devstoreaccount1"
}
