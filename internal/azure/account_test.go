package azure

import (
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	const key = ";AccountKey=c2VjcmV0a2V5"
	for _, test := range []struct {
		name          string
		account       Account
		blobs, queues string // where they are, or what the error says
	}{
		{name: "emulator", account: Account{ConnectionString: "UseDevelopmentStorage=true"},
			blobs: "http://127.0.0.1:10000/devstoreaccount1/", queues: "http://127.0.0.1:10001/devstoreaccount1/"},
		{name: "emulator elsewhere", account: Account{ConnectionString: "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://azurite/;"},
			blobs: "http://azurite:10000/devstoreaccount1/", queues: "http://azurite:10001/devstoreaccount1/"},
		{name: "key", account: Account{ConnectionString: "DefaultEndpointsProtocol=https;AccountName=kennel" + key + ";EndpointSuffix=core.windows.net"},
			blobs: "https://kennel.blob.core.windows.net/", queues: "https://kennel.queue.core.windows.net/"},
		{name: "endpoints", account: Account{ConnectionString: "AccountName=a" + key + ";BlobEndpoint=https://b.example/;QueueEndpoint=https://q.example/"},
			blobs: "https://b.example/", queues: "https://q.example/"},
		{name: "signature", account: Account{ConnectionString: "BlobEndpoint=https://b.example/;SharedAccessSignature=sv=1&sig=s3cr3tsignature"},
			blobs: "https://b.example/?sv=1&sig=s3cr3tsignature", queues: "names no queue endpoint"},
		{name: "addresses", account: Account{BlobURL: "https://b.example/", QueueURL: "https://q.example/"},
			blobs: "https://b.example/", queues: "https://q.example/"},
		{name: "managed identity", account: Account{BlobURL: "https://b.example/", QueueURL: "https://q.example/", ManagedIdentity: true, ClientID: "1f0c"},
			blobs: "https://b.example/", queues: "https://q.example/"},
		{name: "emulator, the other way round", account: Account{ConnectionString: "DevelopmentStorageProxyUri=http://azurite;UseDevelopmentStorage=true"},
			blobs: "http://azurite:10000/devstoreaccount1/", queues: "http://azurite:10001/devstoreaccount1/"},
		{name: "nothing", blobs: "neither", queues: "neither"},
		{name: "not a connection string", account: Account{ConnectionString: "c2VjcmV0a2V5"},
			blobs: "malformed", queues: "malformed"},
		{name: "key is not base64", account: Account{ConnectionString: "AccountName=a;AccountKey=c2VjcmV0a2V5!"},
			blobs: "malformed", queues: "malformed"},
		{name: "not https", account: Account{BlobURL: "http://b.example/", QueueURL: "http://q.example/"},
			blobs: "not https", queues: "not https"},
		{name: "address with a signature", account: Account{BlobURL: "https://b.example/?sig=s3cr3tsignature", QueueURL: "https://u:c2VjcmV0a2V5@q.example/"},
			blobs: "not of the form", queues: "not of the form"},
		{name: "no address", account: Account{BlobURL: "b.example", QueueURL: "%"},
			blobs: "not of the form", queues: "not of the form"},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := func(open func(*Options) (string, error), want string) {
				t.Helper()
				got, err := open(nil)
				leakless(t, err)
				if err != nil {
					got = err.Error()
				}
				if good := strings.HasPrefix(want, "http"); good && got != want || !good && (err == nil || !strings.Contains(got, want)) {
					t.Errorf("opened %q, %v, want %q", got, err, want)
				}
			}
			check(func(o *Options) (string, error) {
				blobs, err := test.account.OpenBlobs(o)
				if err != nil {
					return "", err
				}
				return blobs.client.URL(), nil
			}, test.blobs)
			check(func(o *Options) (string, error) {
				queues, err := test.account.OpenQueues(o)
				if err != nil {
					return "", err
				}
				return queues.client.URL(), nil
			}, test.queues)
		})
	}
}
