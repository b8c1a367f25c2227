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
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"kennel/internal/azure/identity"
	"kennel/internal/azure/requests"
	"kennel/internal/names"
	"kennel/internal/version"
)

// Account identifies a storage account and how to sign in to it: by connection
// string, or by the addresses of the services and an identity.
type Account struct {
	ConnectionString string // "UseDevelopmentStorage=true": an Azurite on its default ports

	// Without a connection string: https addresses, such as
	// https://ACCOUNT.blob.core.windows.net. Only those in use are needed.
	BlobURL, QueueURL, TableURL string

	// ManagedIdentity signs in as the identity assigned to the app: the one
	// with the ClientID, or the system-assigned one if that is "". If false,
	// the environment selects the identity, for example the developer's after
	// "az login".
	ManagedIdentity bool
	ClientID        string

	// Prefix begins the name of every queue, table and container in storage, and
	// no other: callers, errors, traces and lists have the names without it, and
	// what belongs to another prefix is not there. "": none.
	Prefix string
}

// Options are the optional parts of a client; nil and zero mean the defaults.
type Options struct {
	TryTimeout time.Duration      // of one request; default 10 s
	HTTP       *http.Client       // default: the SDK's own
	Requests   *requests.Counter  // counts the requests; default: none
	Outcomes   *requests.Outcomes // records which calls fail; default: none
	Job        string             // the job to count requests for, unless the adapter belongs to one; default ""

	Endless func(queue string) bool // which queues have messages that never expire; default: none

	Credential azcore.TokenCredential // signs in without a connection string; default: the account's identity
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.TryTimeout = cmp.Or(opt.TryTimeout, 10*time.Second)
	if opt.TryTimeout < 0 {
		return opt, fmt.Errorf("azure.Options.TryTimeout is %v: use more than 0", opt.TryTimeout)
	}
	return opt, nil
}

// Blobs is a client for the account's blobs. It is safe for concurrent use.
type Blobs struct {
	client *service.Client
	once   once
	prefix string
}

// container returns the client of a container.
func (b *Blobs) container(name string) *container.Client {
	return b.client.NewContainerClient(names.WithPrefix(b.prefix, name))
}

// OpenBlobs checks the account and returns a client for its blobs. It makes no
// request.
func (a Account) OpenBlobs(options *Options) (*Blobs, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	pipeline, once := clientOptions(requests.Blob, a.Prefix, opt)
	client, err := open(a, opt, requests.Blob, a.BlobURL,
		func(connection string) (*service.Client, error) {
			return service.NewClientFromConnectionString(connection, &service.ClientOptions{ClientOptions: pipeline})
		},
		func(address string, credential azcore.TokenCredential) (*service.Client, error) {
			return service.NewClient(address, credential, &service.ClientOptions{ClientOptions: pipeline})
		})
	if err != nil {
		return nil, err
	}
	return &Blobs{client, once, a.Prefix}, nil
}

// OpenQueues checks the account and returns a client for its queues. It makes
// no request.
func (a Account) OpenQueues(options *Options) (*Queues, error) {
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	pipeline, once := clientOptions(requests.Queue, a.Prefix, opt)
	client, err := open(a, opt, requests.Queue, a.QueueURL,
		func(connection string) (*azqueue.ServiceClient, error) {
			return azqueue.NewServiceClientFromConnectionString(connection, &azqueue.ClientOptions{ClientOptions: pipeline})
		},
		func(address string, credential azcore.TokenCredential) (*azqueue.ServiceClient, error) {
			return azqueue.NewServiceClient(address, credential, &azqueue.ClientOptions{ClientOptions: pipeline})
		})
	if err != nil {
		return nil, err
	}
	return &Queues{client, once, a.Prefix, opt.Endless}, nil
}

// open returns a client of one service, by connection string or by identity.
func open[Client any](a Account, opt Options, name, address string,
	byConnection func(connection string) (*Client, error),
	byIdentity func(address string, credential azcore.TokenCredential) (*Client, error),
) (*Client, error) {
	if a.ConnectionString != "" {
		client, err := byConnection(expand(a.ConnectionString))
		if err != nil {
			// The SDK's text may repeat parts of the connection string.
			return nil, fmt.Errorf("open %s storage: the connection string is malformed or has no %s endpoint", name, name)
		}
		return client, nil
	}
	if address == "" {
		return nil, fmt.Errorf("open %s storage: the account has neither a connection string nor a %s address", name, name)
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("open %s storage: the %s address is invalid; use the form https://ACCOUNT.%s.core.windows.net", name, name, name)
	}
	if u.Scheme != "https" {
		return nil, fmt.Errorf("open %s storage: the %s address %s is not https, which is required to sign in by identity", name, name, u)
	}
	as := opt.Credential
	if as == nil {
		if as, err = identity.New(a.ManagedIdentity, a.ClientID); err != nil {
			return nil, fmt.Errorf("open %s storage: %w", name, err)
		}
	}
	client, err := byIdentity(address, signIn{as})
	if err != nil {
		return nil, fmt.Errorf("open %s storage: %w", name, safe(err))
	}
	return client, nil
}

// once sends requests without retries, and counts them for a job.
type once struct {
	timeout  time.Duration
	job      string
	observed *observing // records the outcomes; nil: they are not recorded
}

// of returns a copy for an adapter that belongs to a job.
func (o once) of(job string) once { return once{o.timeout, job, o.observed} }

func (o once) context(ctx context.Context) context.Context {
	return policy.WithRetryOptions(requests.WithJob(ctx, o.job), o.options())
}

func (o once) options() policy.RetryOptions {
	return policy.RetryOptions{MaxRetries: -1, TryTimeout: o.timeout} // 0 means the default of three
}

// clientOptions returns the options of a client of the SDK, for an account with a
// prefix.
func clientOptions(service, prefix string, opt Options) (azcore.ClientOptions, once) {
	once := once{timeout: opt.TryTimeout, job: opt.Job}
	options := azcore.ClientOptions{Retry: once.options()}
	options.Telemetry.ApplicationID = version.UserAgent()
	if opt.HTTP != nil {
		options.Transport = opt.HTTP
	}
	if opt.Outcomes != nil {
		once.observed = &observing{opt.Outcomes, service}
		options.PerCallPolicies = []policy.Policy{once.observed}
	}
	options.PerRetryPolicies = []policy.Policy{limiting{}, tracing{service, prefix}}
	if opt.Requests != nil {
		options.PerRetryPolicies = append(options.PerRetryPolicies, counting{opt.Requests, service})
	}
	return options, once
}

// counting is the policy of the SDK's pipeline that counts requests. It runs
// after the policies for retries and sign-in, so it counts each request that is
// sent.
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

// expand replaces the shorthand for a local emulator, which the SDK does not
// support. The key is not a secret: every Azurite has the same, and its
// documentation shows it.
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
