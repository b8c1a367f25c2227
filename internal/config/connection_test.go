package config

import (
	"strings"
	"testing"

	"kennel/internal/azure"
)

const secret = "c2VjcmV0c2VjcmV0" // base64 of a key

func TestConnectionString(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"key", withKey, nil},
		{"trailing semicolons", withKey + ";;", nil},
		{"emulator", emulator, nil},
		{"emulator elsewhere", emulator + ";DevelopmentStorageProxyUri=http://azurite", nil},
		{"emulator in full", "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=" + secret + ";BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1;", nil},
		{"signature", "BlobEndpoint=https://kennelstore.blob.core.windows.net/;SharedAccessSignature=sv=2024-11-04&ss=b&sig=" + secret + "%3D", nil},
		{"signature with account", "AccountName=kennelstore;SharedAccessSignature=sv=2024-11-04&sig=" + secret, nil},
		{"parts of others", withKey + ";Comment=" + secret, nil},

		{"a key alone", secret, []string{"is not a connection string: copy the one"}},
		{"a key with padding", secret + "==", []string{"has neither AccountName nor BlobEndpoint", "has neither AccountKey nor SharedAccessSignature"}},
		{"no name", "AccountKey=" + secret, []string{"has neither AccountName", "has an AccountKey without an AccountName"}},
		{"no key", "AccountName=kennelstore", []string{"has neither AccountKey nor SharedAccessSignature"}},
		{"key cut", "AccountName=kennelstore;AccountKey=" + secret[:len(secret)-1], []string{"AccountKey that is not base64"}},
		{"semicolons doubled inside", "AccountName=kennelstore;;AccountKey=" + secret, []string{"its part 2 is not of the form Name=Value"}},
		{"spaces between parts", "AccountName=kennelstore; AccountKey=" + secret, []string{"must spell its part 2 exactly AccountKey"}},
		{"lower case", "accountname=kennelstore;accountkey=" + secret, []string{"part 1 exactly AccountName", "part 2 exactly AccountKey"}},
		{"twice", withKey + ";AccountKey=" + secret, []string{"has AccountKey twice"}},
		{"bad name", "AccountName=Kennel Store;AccountKey=" + secret, []string{"an AccountName that is not"}},
		{"bad protocol", "DefaultEndpointsProtocol=ftp;AccountName=kennelstore;AccountKey=" + secret, []string{"DefaultEndpointsProtocol=https"}},
		{"bad suffix", withKey + "/", []string{"an EndpointSuffix that is not a domain"}},
		{"endpoint with signature", "BlobEndpoint=https://b.example/?sig=" + secret + ";SharedAccessSignature=sig=" + secret, []string{"a BlobEndpoint that is not an address"}},
		{"signature with question mark", "BlobEndpoint=https://b.example/;SharedAccessSignature=?sv=1&sig=" + secret, []string{"without a leading question mark"}},
		{"signature cut", "BlobEndpoint=https://b.example/;SharedAccessSignature=sv=1", []string{"not of the form sv=…&sig=…"}},
		{"emulator denied", "UseDevelopmentStorage=false", []string{"must contain exactly UseDevelopmentStorage=true"}},
		{"emulator with port", emulator + ";DevelopmentStorageProxyUri=http://azurite:10000", []string{"DevelopmentStorageProxyUri that is not"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expectProblems(t, map[string]string{"AzureWebJobsStorage": tt.text}, tt.want)
		})
	}
}

// FuzzConnectionString checks that the storage client accepts every connection
// string that Load accepts, so that no setting fails at the first request.
func FuzzConnectionString(f *testing.F) {
	for _, seed := range []string{
		withKey, emulator, emulator + ";DevelopmentStorageProxyUri=http://azurite/;",
		"BlobEndpoint=https://b.example/;SharedAccessSignature=sv=1&sig=x",
		"AccountName=kennelstore;AccountKey=" + secret + ";BlobEndpoint=http://[::1]:10000/a",
		"AccountName=kennelstore;AccountKey=" + secret + ";EndpointSuffix=a b",
		"AccountName=kennelstore;SharedAccessSignature=sig=%zz",
		"=;=", ";", "a=b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Load(map[string]string{"AzureWebJobsStorage": text})
		if err != nil {
			return
		}
		account := azure.Account{ConnectionString: c.Storage.ConnectionString}
		if _, err := account.OpenBlobs(nil); err != nil {
			t.Errorf("accepted %q, but: %v", text, err)
		}
	})
}

// FuzzLoad checks that Load does not panic, returns settings within their
// bounds, and repeats no value in an error.
func FuzzLoad(f *testing.F) {
	names := []string{
		"AzureWebJobsStorage", "AzureWebJobsStorage__accountName", "AzureWebJobsStorage__blobServiceUri",
		"AzureWebJobsStorage__credential", "AzureWebJobsStorage__clientId", "AzureWebJobsStorage__clientSecret",
		"AZURE_CLIENT_ID", "FUNCTIONS_CUSTOMHANDLER_PORT", "FUNCTIONS_HTTPWORKER_PORT", "KENNEL_RANGE_SIZE",
		"KENNEL_RANGE_LASTS", "KENNEL_RESERVE_TIMEOUT", "KENNEL_INVOCATION_TIMEOUT", "KENNEL_DRAIN", "KENNEL_WORKER_DRAIN", "KENNEL_WORKER_LEASE", "KENNEL_IDLE_POLL",
		"KENNEL_LOG_LEVEL", "KENNEL_UNKNOWN", "KENNEL_SEQUENCES", "azurewebjobsstorage:tablEServiceUri",
		"KENNEL_PARTITIONS", "KENNEL_WORK_GATE", "KENNEL_BATCH_MAX_BYTES", "KENNEL_WEBHOOK_ALLOW",
	}
	for which := range names {
		f.Add(uint8(which), "Zq8vXw3mTn", uint8(0), withKey)
		f.Add(uint8(which), "1", uint8(9), "2m")
		f.Add(uint8(which), "https://b.example/?Zq8vXw3mTn", uint8(7), "80")
		f.Add(uint8(which), "4GiB", uint8(7), "80")
	}
	f.Fuzz(func(t *testing.T, first uint8, one string, second uint8, two string) {
		env := map[string]string{
			names[int(first)%len(names)]:  one,
			names[int(second)%len(names)]: two,
		}
		c, err := Load(env)
		if err == nil {
			if c.Port < 1 || c.Port > 65535 || c.RangeSize < 1 || c.InvocationTimeout >= functionTimeout || c.ReserveTimeout > c.InvocationTimeout ||
				c.Partitions < 1 || c.Partitions > MaxPartitions || c.BatchMaxBytes < 1 || c.BatchMaxBytes > maxBatchBytes {
				t.Errorf("loaded %+v from %q", c, env)
			}
			return
		}
		// A short value may occur in a message by chance; a key does not.
		const key = "Zq8vXw3mTn"
		for _, value := range env {
			if strings.Contains(value, key) && strings.Contains(err.Error(), key) {
				t.Errorf("error repeats a value: %v", err)
			}
		}
	})
}
