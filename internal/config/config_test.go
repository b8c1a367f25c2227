package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	emulator = "UseDevelopmentStorage=true"
	withKey  = "DefaultEndpointsProtocol=https;AccountName=kennelstore;AccountKey=c2VjcmV0c2VjcmV0;EndpointSuffix=core.windows.net"
)

// defaults is what comes of an environment with storage alone.
func defaults() Config {
	return Config{
		Port:              7072,
		PortFromDefault:   true,
		Storage:           Storage{ConnectionString: emulator},
		RangeSize:         1000,
		RangeLasts:        time.Minute,
		ReserveTimeout:    10 * time.Second,
		InvocationTimeout: 4*time.Minute + 30*time.Second,
		Drain:             5 * time.Second,
		LogLevel:          slog.LevelInfo,
	}
}

func TestLoad(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string // beside storage
		want func(*Config)     // how it differs from the defaults
	}{
		{"defaults", nil, func(*Config) {}},
		{"everything", map[string]string{
			"FUNCTIONS_CUSTOMHANDLER_PORT": "40123",
			"KENNEL_RANGE_SIZE":            "1000000",
			"KENNEL_RANGE_LASTS":           "90s",
			"KENNEL_RESERVE_TIMEOUT":       "250ms",
			"KENNEL_INVOCATION_TIMEOUT":    "4m59s",
			"KENNEL_DRAIN":                 "0s",
			"KENNEL_LOG_LEVEL":             "DEBUG",
		}, func(c *Config) {
			c.Port, c.PortFromDefault = 40123, false
			c.RangeSize = 1_000_000
			c.RangeLasts = 90 * time.Second
			c.ReserveTimeout = 250 * time.Millisecond
			c.InvocationTimeout = 4*time.Minute + 59*time.Second
			c.Drain = 0
			c.LogLevel = slog.LevelDebug
		}},
		{"callers are signed in", map[string]string{"WEBSITE_AUTH_ENABLED": "True"},
			func(c *Config) { c.SignedIn = true }},
		{"callers are not signed in", map[string]string{"WEBSITE_AUTH_ENABLED": "False"}, func(*Config) {}},
		{"port of an old host", map[string]string{"FUNCTIONS_HTTPWORKER_PORT": "40124"},
			func(c *Config) { c.Port, c.PortFromDefault = 40124, false }},
		{"both ports", map[string]string{"FUNCTIONS_HTTPWORKER_PORT": "40124", "FUNCTIONS_CUSTOMHANDLER_PORT": "40123"},
			func(c *Config) { c.Port, c.PortFromDefault = 40123, false }},
		{"blank is absent", map[string]string{"KENNEL_RANGE_SIZE": " ", "KENNEL_LOG_LEVEL": "", "FUNCTIONS_CUSTOMHANDLER_PORT": ""},
			func(*Config) {}},
		{"white space around", map[string]string{"KENNEL_RANGE_SIZE": " 5\n"},
			func(c *Config) { c.RangeSize = 5 }},
		{"the key of the command line", map[string]string{"KENNEL_KEY": "secret"},
			func(*Config) {}},
		{"smallest range", map[string]string{"KENNEL_RANGE_SIZE": "1"},
			func(c *Config) { c.RangeSize = 1 }},
		{"warnings and errors", map[string]string{"KENNEL_LOG_LEVEL": "warn"},
			func(c *Config) { c.LogLevel = slog.LevelWarn }},
		{"errors", map[string]string{"KENNEL_LOG_LEVEL": "Error"},
			func(c *Config) { c.LogLevel = slog.LevelError }},
		{"others' settings", map[string]string{"PATH": "/bin", "FUNCTIONS_WORKER_RUNTIME": "custom", "KENNELS": "2", "AZURE_CLIENT_ID": "1f0c"},
			func(*Config) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"AzureWebJobsStorage": emulator}
			maps.Copy(env, test.env)
			got, err := Load(env)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			test.want(&want)
			if got != want {
				t.Errorf("loaded %+v, want %+v", got, want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string // beside storage
		want []string          // what each problem says
	}{
		{"port", map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "http"}, []string{"FUNCTIONS_CUSTOMHANDLER_PORT must be a port"}},
		{"port 0", map[string]string{"FUNCTIONS_HTTPWORKER_PORT": "0"}, []string{"FUNCTIONS_HTTPWORKER_PORT must be a port"}},
		{"port too high", map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "65536"}, []string{"from 1 to 65535"}},
		{"no range", map[string]string{"KENNEL_RANGE_SIZE": "0"}, []string{"KENNEL_RANGE_SIZE must be a whole number from 1 to 1000000, such as 1000"}},
		{"range too large", map[string]string{"KENNEL_RANGE_SIZE": "1000001"}, []string{"KENNEL_RANGE_SIZE"}},
		{"range of letters", map[string]string{"KENNEL_RANGE_SIZE": "1k"}, []string{"KENNEL_RANGE_SIZE"}},
		{"time without unit", map[string]string{"KENNEL_RANGE_LASTS": "60"}, []string{"KENNEL_RANGE_LASTS must be a time with its unit from 1s to 24h, such as 1m"}},
		{"time of .NET", map[string]string{"KENNEL_DRAIN": "00:00:05"}, []string{"KENNEL_DRAIN must be a time with its unit from 0s to 1m, such as 5s"}},
		{"negative time", map[string]string{"KENNEL_DRAIN": "-5s"}, []string{"KENNEL_DRAIN"}},
		{"host is faster", map[string]string{"KENNEL_INVOCATION_TIMEOUT": "5m"}, []string{"KENNEL_INVOCATION_TIMEOUT must be shorter than functionTimeout"}},
		{"hours", map[string]string{"KENNEL_INVOCATION_TIMEOUT": "2h"}, []string{"KENNEL_INVOCATION_TIMEOUT must be a time"}},
		{"reserving outlasts the invocation", map[string]string{"KENNEL_INVOCATION_TIMEOUT": "5s"}, []string{"KENNEL_RESERVE_TIMEOUT must not be longer than KENNEL_INVOCATION_TIMEOUT"}},
		{"level", map[string]string{"KENNEL_LOG_LEVEL": "verbose"}, []string{"KENNEL_LOG_LEVEL must be debug, info, warn or error"}},
		{"misspelt", map[string]string{"KENNEL_RANGESIZE": "5"}, []string{"KENNEL_RANGESIZE is not a setting of Kennel: did you mean KENNEL_RANGE_SIZE?"}},
		{"lower case", map[string]string{"kennel_drain": "5s"}, []string{"did you mean KENNEL_DRAIN?"}},
		{"unknown", map[string]string{"KENNEL_COLOUR": "red"}, []string{"KENNEL_COLOUR is not a setting of Kennel: remove it"}},
		{"all at once", map[string]string{
			"KENNEL_RANGE_SIZE": "x", "KENNEL_LOG_LEVEL": "x", "KENNEL_B": "", "KENNEL_A": "", "FUNCTIONS_CUSTOMHANDLER_PORT": "x",
		}, []string{"KENNEL_RANGE_SIZE", "KENNEL_LOG_LEVEL", "FUNCTIONS_CUSTOMHANDLER_PORT", "KENNEL_A", "KENNEL_B"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"AzureWebJobsStorage": emulator}
			maps.Copy(env, test.env)
			expectProblems(t, env, test.want)
		})
	}
}

// expectProblems loads env and finds each of want in a problem of its own, in
// this order.
func expectProblems(t *testing.T, env map[string]string, want []string) {
	t.Helper()
	c, err := Load(env)
	if len(want) == 0 {
		if err != nil {
			t.Errorf("load: %v, want no problem", err)
		}
		return
	}
	problems, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("loaded %+v, %v, want an Error", c, err)
	}
	if len(problems.Problems) != len(want) {
		t.Fatalf("problems %q, want %d", problems.Problems, len(want))
	}
	for i, problem := range problems.Problems {
		if !strings.Contains(problem, want[i]) {
			t.Errorf("problem %q does not say %q", problem, want[i])
		}
		if !strings.Contains(err.Error(), problem) {
			t.Errorf("error %q leaves out %q", err, problem)
		}
		if strings.Contains(problem, "%!") {
			t.Errorf("problem %q is badly formatted", problem)
		}
	}
}

func TestStorage(t *testing.T) {
	const x = "AzureWebJobsStorage"
	section := func(pairs ...string) map[string]string {
		env := make(map[string]string)
		for i := 0; i < len(pairs); i += 2 {
			env[x+"__"+pairs[i]] = pairs[i+1]
		}
		return env
	}
	addresses := Storage{BlobURL: "https://b.example/", QueueURL: "https://q.example/", TableURL: "https://t.example/"}
	managed := addresses
	managed.ManagedIdentity, managed.ClientID = true, "1f0c"
	account := Storage{
		BlobURL:  "https://kennelstore.blob.core.windows.net",
		QueueURL: "https://kennelstore.queue.core.windows.net",
		TableURL: "https://kennelstore.table.core.windows.net",
	}
	fallback := account
	fallback.ManagedIdentity, fallback.ClientID = true, "2e1d"

	for _, test := range []struct {
		name     string
		env      map[string]string
		want     Storage
		problems []string
	}{
		{"connection string", map[string]string{x: withKey + "\n"}, Storage{ConnectionString: withKey}, nil},
		{"nothing", nil, Storage{}, []string{"AzureWebJobsStorage is not set: give it"}},
		{"addresses", section("blobServiceUri", "https://b.example/", "queueServiceUri", "https://q.example/", "tableServiceUri", "https://t.example/"), addresses, nil},
		{"managed identity", section("blobServiceUri", "https://b.example/", "queueServiceUri", "https://q.example/", "tableServiceUri", "https://t.example/",
			"credential", "managedidentity", "clientId", "1f0c"), managed, nil},
		{"blobs alone", section("blobServiceUri", "https://b.example/"), Storage{BlobURL: "https://b.example/"}, nil},
		{"account", section("accountName", "kennelstore"), account, nil},
		{"account wins", section("accountName", "kennelstore", "blobServiceUri", "https://b.example/"), account, nil},
		{"client from the environment", map[string]string{x + "__accountName": "kennelstore", x + "__credential": "ManagedIdentity", "AZURE_CLIENT_ID": "2e1d"}, fallback, nil},
		{"case and colons", map[string]string{"AZUREWEBJOBSSTORAGE:accountname": "kennelstore"}, account, nil},
		{"plain in other case", map[string]string{"azurewebjobsstorage": emulator}, Storage{ConnectionString: emulator}, nil},

		{"both", map[string]string{x: emulator, x + "__blobServiceUri": "https://b.example/", x + "__credential": "managedidentity"}, Storage{},
			[]string{"AzureWebJobsStorage is set beside AzureWebJobsStorage__blobServiceUri, AzureWebJobsStorage__credential"}},
		{"no blobs", section("queueServiceUri", "https://q.example/"), Storage{}, []string{"AzureWebJobsStorage__blobServiceUri is missing"}},
		{"not an address", section("blobServiceUri", "b.example", "queueServiceUri", "http://q.example", "tableServiceUri", "https://t.example?sig=x"), Storage{},
			[]string{"__blobServiceUri must be an address", "https://ACCOUNT.queue.core.windows.net", "__tableServiceUri"}},
		{"account with domain", section("accountName", "kennelstore.blob.core.windows.net"), Storage{}, []string{"__accountName must be the account's bare name"}},
		{"other credential", section("accountName", "kennelstore", "credential", "workloadidentity"), Storage{}, []string{"__credential must be managedidentity or absent"}},
		{"client alone", section("accountName", "kennelstore", "clientId", "1f0c"), Storage{}, []string{"__clientId has no effect alone: set AzureWebJobsStorage__credential=managedidentity"}},
		{"secret of a client", section("accountName", "kennelstore", "clientSecret", "c2VjcmV0", "tenantId", "9a"), Storage{},
			[]string{"__tenantId is not supported", "__clientSecret is not supported: name the identity by AzureWebJobsStorage__clientId"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.problems != nil {
				expectProblems(t, test.env, test.problems)
				return
			}
			got, err := Load(test.env)
			if err != nil {
				t.Fatal(err)
			}
			type bare Storage // prints in full
			if diff := cmp.Diff(bare(got.Storage), bare(test.want)); diff != "" {
				t.Errorf("storage (-), want (+):\n%s", diff)
			}
		})
	}
}

func TestStorageKeepsItsSecrets(t *testing.T) {
	c := Config{Storage: Storage{ConnectionString: withKey}}
	var log strings.Builder
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("starting", "config", c, "storage", c.Storage)
	}
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q", c, c, c.Storage, c.Storage), fmt.Sprintf("%+v", &c), log.String(),
	} {
		if strings.Contains(text, "c2VjcmV0") {
			t.Errorf("the key is in %s", text)
		}
	}
}
