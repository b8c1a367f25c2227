package azure

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"kennel/internal/version"
)

func TestOpen(t *testing.T) {
	const key = ";AccountKey=c2VjcmV0a2V5"
	for _, tt := range []struct {
		name          string
		account       Account
		blobs, queues string // addresses, or a part of the error
	}{
		{name: "emulator", account: Account{ConnectionString: "UseDevelopmentStorage=true"},
			blobs: "http://127.0.0.1:10000/devstoreaccount1/", queues: "http://127.0.0.1:10001/devstoreaccount1/"},
		{name: "emulator elsewhere", account: Account{ConnectionString: "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite/;"},
			blobs: "http://azurite:10000/devstoreaccount1/", queues: "http://azurite:10001/devstoreaccount1/"},
		{name: "key", account: Account{ConnectionString: "DefaultEndpointsProtocol=https;AccountName=kennel" + key + ";EndpointSuffix=core.windows.net"},
			blobs: "https://kennel.blob.core.windows.net/", queues: "https://kennel.queue.core.windows.net/"},
		{name: "endpoints", account: Account{ConnectionString: "AccountName=a" + key + ";BlobEndpoint=https://b.example/;QueueEndpoint=https://q.example/;TableEndpoint=https://t.example/"},
			blobs: "https://b.example/", queues: "https://q.example/"},
		{name: "signature", account: Account{ConnectionString: "BlobEndpoint=https://b.example/;SharedAccessSignature=sv=1&sig=s3cr3tsignature"},
			blobs: "https://b.example/?sv=1&sig=s3cr3tsignature", queues: "has no queue endpoint"},
		{name: "addresses", account: Account{BlobURL: "https://b.example/", QueueURL: "https://q.example/", TableURL: "https://t.example/"},
			blobs: "https://b.example/", queues: "https://q.example/"},
		{name: "managed identity", account: Account{BlobURL: "https://b.example/", QueueURL: "https://q.example/", TableURL: "https://t.example/", ManagedIdentity: true, ClientID: "1f0c"},
			blobs: "https://b.example/", queues: "https://q.example/"},
		{name: "emulator, the other way round", account: Account{ConnectionString: "DevelopmentStorageProxyUri=http://azurite;UseDevelopmentStorage=true"},
			blobs: "http://azurite:10000/devstoreaccount1/", queues: "http://azurite:10001/devstoreaccount1/"},
		{name: "nothing", blobs: "neither", queues: "neither"},
		{name: "not a connection string", account: Account{ConnectionString: "c2VjcmV0a2V5"},
			blobs: "malformed", queues: "malformed"},
		{name: "key is not base64", account: Account{ConnectionString: "AccountName=a;AccountKey=c2VjcmV0a2V5!"},
			blobs: "malformed", queues: "malformed"},
		{name: "not https", account: Account{BlobURL: "http://b.example/", QueueURL: "http://q.example/", TableURL: "http://t.example/"},
			blobs: "not https", queues: "not https"},
		{name: "address with a signature", account: Account{BlobURL: "https://b.example/?sig=s3cr3tsignature", QueueURL: "https://u:c2VjcmV0a2V5@q.example/", TableURL: "https://t.example/?sig=s3cr3tsignature"},
			blobs: "use the form", queues: "use the form"},
		{name: "no address", account: Account{BlobURL: "b.example", QueueURL: "%", TableURL: "t.example"},
			blobs: "use the form", queues: "use the form"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check := func(err error, url func() string, want string) {
				t.Helper()
				leakless(t, err)
				switch {
				case strings.HasPrefix(want, "http") && (err != nil || url() != want):
					t.Errorf("error %v, want a client for %s", err, want)
				case !strings.HasPrefix(want, "http") && (err == nil || !strings.Contains(err.Error(), want)):
					t.Errorf("error %v, want %q", err, want)
				}
			}
			blobs, err := tt.account.OpenBlobs(nil)
			check(err, func() string { return blobs.client.URL() }, tt.blobs)
			queues, err := tt.account.OpenQueues(nil)
			check(err, func() string { return queues.client.URL() }, tt.queues)
			_, err = tt.account.OpenTables(nil)
			if leakless(t, err); (err == nil) != strings.HasPrefix(tt.queues, "http") {
				t.Errorf("open tables: %v, want the same as for queues", err)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestUserAgent checks that the logs of storage show which build sent a
// request.
func TestUserAgent(t *testing.T) {
	sent := 0
	o := &Options{HTTP: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		sent++
		if agent := r.UserAgent(); !strings.HasPrefix(agent, version.UserAgent()+" azsdk-go-") {
			t.Errorf("%s: user agent %q, want it to begin with %q", r.URL.Host, agent, version.UserAgent())
		}
		return nil, errors.New("not sent")
	})}}
	account := Account{ConnectionString: "UseDevelopmentStorage=true"}
	NewSequences(opened(t, account.OpenBlobs, o), "uniqueids").Load(t.Context(), "orders", "")
	openTable(t, opened(t, account.OpenTables, o), "Channels").Get(t.Context(), "p", "k")
	opened(t, account.OpenQueues, o).Put(t.Context(), "queue", "text", 0)
	if sent != 3 {
		t.Errorf("%d requests, want 3", sent)
	}
}
