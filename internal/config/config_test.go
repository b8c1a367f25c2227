package config

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	emulator = "UseDevelopmentStorage=true"
	bus      = "Endpoint=sb://kennel.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=c2VjcmV0"
	withKey  = "DefaultEndpointsProtocol=https;AccountName=kennelstore;AccountKey=c2VjcmV0c2VjcmV0;EndpointSuffix=core.windows.net"
)

// defaults is the configuration from an environment with only storage.
func defaults() Config {
	return Config{
		Port:              7072,
		PortFromDefault:   true,
		Storage:           Storage{ConnectionString: emulator},
		FailoverInterval:  10 * time.Second,
		BacklogQueues:     10,
		Sequences:         []string{"*"},
		RangeSize:         10,
		RangeLasts:        time.Minute,
		ReserveTimeout:    10 * time.Second,
		InvocationTimeout: 4*time.Minute + 30*time.Second,
		Drain:             5 * time.Second,
		WorkerDrain:       20 * time.Second,
		WorkerLease:       30 * time.Second,
		IdlePoll:          30 * time.Second,
		Partitions:        4,
		BatchMaxBytes:     64 << 20,
		BatchMaxItems:     500_000,
		LatencyTarget:     15 * time.Minute,
		Retention:         30 * 24 * time.Hour,
		LogLevel:          slog.LevelInfo,
	}
}

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string // besides storage
		want func(*Config)     // the difference from the defaults
	}{
		{"defaults", nil, func(*Config) {}},
		{"everything", map[string]string{
			"FUNCTIONS_CUSTOMHANDLER_PORT": "40123",
			"KENNEL_FAILOVER_INTERVAL":     "0",
			"KENNEL_BACKLOG_QUEUES":        "100",
			"KENNEL_SEQUENCES":             "orders, invoices-*",
			"KENNEL_RANGE_SIZE":            "1000000",
			"KENNEL_RANGE_LASTS":           "90s",
			"KENNEL_RESERVE_TIMEOUT":       "250ms",
			"KENNEL_INVOCATION_TIMEOUT":    "4m59s",
			"KENNEL_DRAIN":                 "100ms",
			"KENNEL_WORKER_DRAIN":          "1h",
			"KENNEL_WORKER_LEASE":          "2s",
			"KENNEL_IDLE_POLL":             "100ms",
			"KENNEL_PARTITIONS":            "32",
			"KENNEL_PREFIX":                " test2 ",
			"KENNEL_WORK_GATE":             "month-end",
			"KENNEL_BATCH_MAX_BYTES":       "256mib",
			"KENNEL_BATCH_MAX_ITEMS":       "1000000",
			"KENNEL_LATENCY_TARGET":        "1h30m",
			"KENNEL_RETENTION_DAYS":        "15",
			"KENNEL_PRICES":                " paper ",
			"KENNEL_WEBHOOK_ALLOW":         "https://hooks.example.com/billing, private+https://erp.example.com",
			"KENNEL_SCALE_TARGET":          "/subscriptions/S/x",
			"KENNEL_SCALE_APPLY":           "True",
			"KENNEL_LOG_LEVEL":             "DEBUG",
			"OTEL_EXPORTER_OTLP_ENDPOINT":  " http://127.0.0.1:4318 ",
			"OTEL_SERVICE_NAME":            "",
		}, func(c *Config) {
			c.Port, c.PortFromDefault = 40123, false
			c.FailoverInterval, c.BacklogQueues = 0, 100
			c.RangeSize = 1_000_000
			c.RangeLasts = 90 * time.Second
			c.ReserveTimeout = 250 * time.Millisecond
			c.InvocationTimeout = 4*time.Minute + 59*time.Second
			c.Drain = 100 * time.Millisecond
			c.WorkerDrain = time.Hour
			c.WorkerLease = 2 * time.Second
			c.IdlePoll = 100 * time.Millisecond
			c.Sequences = []string{"orders", "invoices-*"}
			c.Partitions, c.Storage.Prefix = 32, "test2"
			c.WorkGate = "month-end"
			c.BatchMaxBytes = 256 << 20
			c.BatchMaxItems = 1_000_000
			c.LatencyTarget = 90 * time.Minute
			c.Retention = 15 * 24 * time.Hour
			c.Prices = "paper"
			c.WebhookAllow = []string{"https://hooks.example.com/billing", "private+https://erp.example.com"}
			c.ScaleTarget, c.ScaleApply = "/subscriptions/S/x", true
			c.OpenTelemetry = map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}
			c.LogLevel = slog.LevelDebug
		}},
		{"signed in", map[string]string{"WEBSITE_AUTH_ENABLED": "True"}, func(c *Config) { c.SignedIn = true }},
		{"port of an old host", map[string]string{"FUNCTIONS_HTTPWORKER_PORT": "40124"}, func(c *Config) { c.Port, c.PortFromDefault = 40124, false }},
		{"both ports", map[string]string{"FUNCTIONS_HTTPWORKER_PORT": "40124", "FUNCTIONS_CUSTOMHANDLER_PORT": "40123"},
			func(c *Config) { c.Port, c.PortFromDefault = 40123, false }},
		{"blank is absent", map[string]string{"KENNEL_RANGE_SIZE": " ", "KENNEL_LOG_LEVEL": "", "FUNCTIONS_CUSTOMHANDLER_PORT": ""},
			func(*Config) {}},
		{"surrounding blanks, smallest range", map[string]string{"KENNEL_RANGE_SIZE": " 1\n"}, func(c *Config) { c.RangeSize = 1 }},
		{"warnings and errors", map[string]string{"KENNEL_LOG_LEVEL": "warn"}, func(c *Config) { c.LogLevel = slog.LevelWarn }},
		{"errors", map[string]string{"KENNEL_LOG_LEVEL": "Error"}, func(c *Config) { c.LogLevel = slog.LevelError }},
		{"plain bytes", map[string]string{"KENNEL_BATCH_MAX_BYTES": "100000"}, func(c *Config) { c.BatchMaxBytes = 100_000 }},
		{"bytes with a blank", map[string]string{"KENNEL_BATCH_MAX_BYTES": "64 KiB"}, func(c *Config) { c.BatchMaxBytes = 64 << 10 }},
		{"settings of other programs", map[string]string{
			"PATH": "/bin", "FUNCTIONS_WORKER_RUNTIME": "custom", "KENNELS": "2", "AZURE_CLIENT_ID": "1f0c", "KENNEL_KEY": "secret", "KENNEL_URL": "https://orders.example.org", "WEBSITE_AUTH_ENABLED": "False",
		}, func(*Config) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"AzureWebJobsStorage": emulator}
			maps.Copy(env, tt.env)
			got, err := Load(env)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			tt.want(&want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("loaded %+v, want %+v", got, want)
			}
		})
	}
}

func TestInAzure(t *testing.T) {
	for name, want := range map[string]bool{"WEBSITE_SITE_NAME": true, "WEBSITE_INSTANCE_ID": true, "WEBSITE_HOSTNAME": false, "FUNCTIONS_EXTENSION_VERSION": false} {
		c, err := Load(map[string]string{"AzureWebJobsStorage": emulator, name: "x"})
		if err != nil || c.Platform.InAzure() != want {
			t.Errorf("with %s the app runs in Azure: %t, %v; want %t", name, c.Platform.InAzure(), err, want)
		}
	}
}

// TestDocumented: every setting of ours is a row in docs/operations.md.
func TestDocumented(t *testing.T) {
	manual, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("config.go")
	if err != nil {
		t.Fatal(err)
	}
	settings := regexp.MustCompile(`r\.[a-z]+\("(KENNEL_[A-Z_]+)"`).FindAllSubmatch(source, -1)
	if len(settings) < 15 {
		t.Fatalf("found %d settings in config.go", len(settings))
	}
	for _, setting := range settings {
		if !strings.Contains(string(manual), fmt.Sprintf("\n| `%s` | ", setting[1])) {
			t.Errorf("docs/operations.md has no row for %s", setting[1])
		}
	}
}

func TestProblems(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string // besides storage
		want []string          // a part of each problem
	}{
		{"not of the type", map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "http", "KENNEL_RANGE_SIZE": "1k", "KENNEL_RANGE_LASTS": "60", "KENNEL_DRAIN": "00:00:05"},
			[]string{"KENNEL_RANGE_SIZE must be a whole number from 1 to 1000000, for example 10", "KENNEL_RANGE_LASTS must be a duration with a unit, from 1s to 24h, for example 1m",
				"KENNEL_DRAIN must be a duration with a unit, from 100ms to 1m, for example 5s", "FUNCTIONS_CUSTOMHANDLER_PORT must be a port"}},
		{"below the minimum", map[string]string{"FUNCTIONS_HTTPWORKER_PORT": "0", "KENNEL_RANGE_SIZE": "0", "KENNEL_DRAIN": "-5s"},
			[]string{"KENNEL_RANGE_SIZE", "KENNEL_DRAIN", "FUNCTIONS_HTTPWORKER_PORT must be a port"}},
		{"above the maximum", map[string]string{"FUNCTIONS_CUSTOMHANDLER_PORT": "65536", "KENNEL_RANGE_SIZE": "1000001", "KENNEL_INVOCATION_TIMEOUT": "2h"},
			[]string{"KENNEL_RANGE_SIZE", "KENNEL_INVOCATION_TIMEOUT must be a duration", "from 1 to 65535"}},
		{"timeout of the host", map[string]string{"KENNEL_INVOCATION_TIMEOUT": "5m"}, []string{"KENNEL_INVOCATION_TIMEOUT must be shorter than functionTimeout"}},
		{"reserving outlasts the invocation", map[string]string{"KENNEL_INVOCATION_TIMEOUT": "5s"}, []string{"KENNEL_RESERVE_TIMEOUT must not be longer than KENNEL_INVOCATION_TIMEOUT"}},
		{"polls that are too far apart", map[string]string{"KENNEL_IDLE_POLL": "11m"}, []string{"KENNEL_IDLE_POLL must be a duration with a unit, from 100ms to 10m, for example 30s"}},
		{"fraction of a second", map[string]string{"KENNEL_WORKER_LEASE": "2500ms"}, []string{"KENNEL_WORKER_LEASE must be whole seconds"}},
		{"scaling of nothing", map[string]string{"KENNEL_SCALE_APPLY": "true"}, []string{"KENNEL_SCALE_APPLY is true without KENNEL_SCALE_TARGET"}},
		{"neither true nor false", map[string]string{"KENNEL_SCALE_APPLY": "yes"}, []string{"KENNEL_SCALE_APPLY must be true or false"}},
		{"level", map[string]string{"KENNEL_LOG_LEVEL": "verbose"}, []string{"KENNEL_LOG_LEVEL must be debug, info, warn or error"}},
		{"misspelt", map[string]string{"KENNEL_RANGESIZE": "5"}, []string{"KENNEL_RANGESIZE is not a setting of Kennel: did you mean KENNEL_RANGE_SIZE?"}},
		{"patterns", map[string]string{"KENNEL_SEQUENCES": "orders,,[x"}, []string{"KENNEL_SEQUENCES must be a list"}},
		{"a prefix in capitals, and another mistake", map[string]string{"KENNEL_PREFIX": "Test", "KENNEL_PARTITIONS": "0"},
			[]string{"KENNEL_PARTITIONS must be", "KENNEL_PREFIX must be lower-case letters and digits, first a letter, at most 20"}},
		{"a prefix that begins with a digit", map[string]string{"KENNEL_PREFIX": "2test"}, []string{"KENNEL_PREFIX must be"}},
		{"a prefix with a hyphen", map[string]string{"KENNEL_PREFIX": "a-b"}, []string{"KENNEL_PREFIX must be"}},
		{"too long a prefix", map[string]string{"KENNEL_PREFIX": "abcdefghijklmnopqrstu"}, []string{"KENNEL_PREFIX must be"}},
		{"a prefix of the app", map[string]string{"KENNEL_PREFIX": "work"}, []string{"KENNEL_PREFIX is a word with which"}},
		{"batches below the minimum", map[string]string{"KENNEL_PARTITIONS": "0", "KENNEL_BATCH_MAX_BYTES": "65535", "KENNEL_BATCH_MAX_ITEMS": "0", "KENNEL_LATENCY_TARGET": "0s", "KENNEL_RETENTION_DAYS": "14"},
			[]string{"KENNEL_PARTITIONS must be a whole number from 1 to 32, for example 4", "KENNEL_BATCH_MAX_BYTES must be a number of bytes, plain or with the unit KiB, MiB or GiB, from 64KiB to 256MiB, for example 64MiB",
				"KENNEL_BATCH_MAX_ITEMS must be a whole number", "KENNEL_LATENCY_TARGET must be a duration", "KENNEL_RETENTION_DAYS must be a whole number from 15 to 3650"}},
		{"batches above the maximum", map[string]string{"KENNEL_PARTITIONS": "33", "KENNEL_BATCH_MAX_BYTES": "9223372036854775807GiB", "KENNEL_BATCH_MAX_ITEMS": "1000001"},
			[]string{"KENNEL_PARTITIONS", "KENNEL_BATCH_MAX_BYTES", "KENNEL_BATCH_MAX_ITEMS"}},
		{"relay below the minimum", map[string]string{"KENNEL_FAILOVER_INTERVAL": "-1s", "KENNEL_BACKLOG_QUEUES": "0"},
			[]string{"KENNEL_FAILOVER_INTERVAL must be a duration with a unit, from 0s to 1h, for example 10s", "KENNEL_BACKLOG_QUEUES must be a whole number from 1 to 100, for example 10"}},
		{"relay above the maximum", map[string]string{"KENNEL_FAILOVER_INTERVAL": "60m1ms", "KENNEL_BACKLOG_QUEUES": "101"}, []string{"KENNEL_FAILOVER_INTERVAL", "KENNEL_BACKLOG_QUEUES"}},
		{"unit", map[string]string{"KENNEL_BATCH_MAX_BYTES": "64MB"}, []string{"KENNEL_BATCH_MAX_BYTES"}},
		{"negative bytes", map[string]string{"KENNEL_BATCH_MAX_BYTES": "-64MiB"}, []string{"KENNEL_BATCH_MAX_BYTES"}},
		{"gate", map[string]string{"KENNEL_WORK_GATE": "Month End"}, []string{"KENNEL_WORK_GATE must be the name of a gate"}},
		{"lower case", map[string]string{"kennel_drain": "5s"}, []string{"did you mean KENNEL_DRAIN?"}},
		{"unknown", map[string]string{"KENNEL_COLOUR": "red", "KENNEL_A": ""}, []string{"KENNEL_A", "KENNEL_COLOUR is not a setting of Kennel: remove it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"AzureWebJobsStorage": emulator}
			maps.Copy(env, tt.env)
			expectProblems(t, env, tt.want)
		})
	}
}

// expectProblems loads env and expects one problem for each of want, in this
// order, that contains it. It reports whether there is a configuration to
// compare.
func expectProblems(t *testing.T, env map[string]string, want []string) (_ Config, ok bool) {
	t.Helper()
	c, err := Load(env)
	if len(want) == 0 && err == nil {
		return c, true
	}
	problems, ok := errors.AsType[*Error](err)
	if !ok || len(problems.Problems) != len(want) {
		t.Fatalf("loaded %+v, %v, want %d problems", c, err, len(want))
	}
	if strings.Contains(err.Error(), secret[:8]) {
		t.Errorf("the error repeats a key: %v", err)
	}
	for i, problem := range problems.Problems {
		if !strings.Contains(problem, want[i]) || strings.Contains(problem, "%!") {
			t.Errorf("problem %q does not contain %q or is badly formatted", problem, want[i])
		}
		if !strings.Contains(err.Error(), problem) {
			t.Errorf("error %q does not contain %q", err, problem)
		}
	}
	return c, false
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

	for _, tt := range []struct {
		name     string
		env      map[string]string
		want     Storage
		problems []string
	}{
		{"connection string", map[string]string{x: withKey + "\n"}, Storage{ConnectionString: withKey}, nil},
		{"nothing", nil, Storage{}, []string{"AzureWebJobsStorage is not set: set it"}},
		{"managed identity", section("blobServiceUri", "https://b.example/", "queueServiceUri", "https://q.example/", "tableServiceUri", "https://t.example/",
			"credential", "managedidentity", "clientId", "1f0c"), managed, nil},
		{"blobs alone", section("blobServiceUri", "https://b.example/"), Storage{BlobURL: "https://b.example/"}, nil},
		{"account", section("accountName", "kennelstore"), account, nil},
		{"account overrides addresses", section("accountName", "kennelstore", "blobServiceUri", "https://b.example/"), account, nil},
		{"client from the environment", map[string]string{x + "__accountName": "kennelstore", x + "__credential": "ManagedIdentity", "AZURE_CLIENT_ID": "2e1d"}, fallback, nil},
		{"case and colons", map[string]string{"AZUREWEBJOBSSTORAGE:accountname": "kennelstore"}, account, nil},

		{"both", map[string]string{x: emulator, x + "__blobServiceUri": "https://b.example/", x + "__credential": "managedidentity"}, Storage{},
			[]string{"AzureWebJobsStorage and AzureWebJobsStorage__blobServiceUri, AzureWebJobsStorage__credential are both set"}},
		{"no blobs", section("queueServiceUri", "https://q.example/"), Storage{}, []string{"AzureWebJobsStorage__blobServiceUri is missing"}},
		{"not an address", section("blobServiceUri", "b.example", "queueServiceUri", "http://q.example", "tableServiceUri", "https://t.example?sig=x"), Storage{},
			[]string{"__blobServiceUri must be an address", "https://ACCOUNT.queue.core.windows.net", "__tableServiceUri"}},
		{"account with domain", section("accountName", "kennelstore.blob.core.windows.net"), Storage{}, []string{"__accountName must be the account's name without a domain"}},
		{"other credential", section("accountName", "kennelstore", "credential", "workloadidentity"), Storage{}, []string{"__credential must be managedidentity or absent"}},
		{"client alone", section("accountName", "kennelstore", "clientId", "1f0c"), Storage{}, []string{"__clientId has no effect alone: set AzureWebJobsStorage__credential=managedidentity"}},
		{"secret of a client", section("accountName", "kennelstore", "clientSecret", "c2VjcmV0", "tenantId", "9a"), Storage{},
			[]string{"__tenantId is not supported", "__clientSecret is not supported: select the identity with AzureWebJobsStorage__clientId"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			type bare Storage // prints in full
			if c, ok := expectProblems(t, tt.env, tt.problems); ok && c.Storage != tt.want {
				t.Errorf("storage %+v, want %+v", bare(c.Storage), bare(tt.want))
			}
		})
	}
}

func TestNoSecretIsPrinted(t *testing.T) {
	c := Config{Storage: Storage{ConnectionString: withKey}, ServiceBus: ServiceBus{ConnectionString: bus}}
	var log strings.Builder
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("starting", "config", c, "storage", c.Storage, "bus", c.ServiceBus)
	}
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q %s %q", c, c, c.Storage, c.Storage, c.ServiceBus, c.ServiceBus), fmt.Sprintf("%+v", &c), log.String(),
	} {
		if strings.Contains(text, "c2VjcmV0") {
			t.Errorf("the key is in %s", text)
		}
	}
}

// TestWarnings: settings that are probably mistakes do not stop the start.
func TestWarnings(t *testing.T) {
	for _, tt := range []struct{ setting, value, want, change, to string }{
		{"FUNCTIONS_WORKER_RUNTIME", "Custom", "", "", ""},
		{"FUNCTIONS_WORKER_RUNTIME", "node", "FUNCTIONS_WORKER_RUNTIME is not custom", "FUNCTIONS_WORKER_RUNTIME", "custom"},
		{"AzureFunctionsJobHost__functionTimeout", "00:05:00", "", "", ""},
		{"AzureFunctionsJobHost__functionTimeout", "-1", "", "", ""},
		{"AzureFunctionsJobHost:functionTimeout", "00:04:30", "KENNEL_INVOCATION_TIMEOUT is 4m30s and not shorter than AzureFunctionsJobHost__functionTimeout, which is 4m30s",
			"KENNEL_INVOCATION_TIMEOUT", "4m3s"},
		{"AzureWebJobsStorage__blobServiceUrl", "x", "did you mean AzureWebJobsStorage__blobServiceUri?", "AzureWebJobsStorage__blobServiceUrl", ""},
		{"ServiceBuss", "secret", "did you mean ServiceBus?", "ServiceBuss", ""},
		{"KENEL_DRAIN", "secret", "did you mean KENNEL_DRAIN?", "KENEL_DRAIN", ""},
		{"AZUREWEBJOBSSTORAGE", emulator, "", "", ""},
		{"AzureWebJobsDashboard", "x", "", "", ""},
		{"PATH", "x", "", "", ""},
	} {
		c, err := Load(map[string]string{"AzureWebJobsStorage": emulator, tt.setting: tt.value})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tt.want == "":
			if len(c.Warnings) > 0 {
				t.Errorf("%s=%s: %+v, want no warning", tt.setting, tt.value, c.Warnings)
			}
		case len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].Text, tt.want) || strings.Contains(c.Warnings[0].Text, "secret") ||
			c.Warnings[0].Setting != tt.change || c.Warnings[0].Value != tt.to:
			t.Errorf("%s=%s: %+v, want one with %q", tt.setting, tt.value, c.Warnings, tt.want)
		}
	}
}

func TestAccount(t *testing.T) {
	for _, tt := range []struct {
		storage Storage
		account string
		local   bool
	}{
		{Storage{ConnectionString: withKey}, "kennelstore", false},
		{Storage{ConnectionString: "BlobEndpoint=https://mystore.blob.core.windows.net/;SharedAccessSignature=sig=x"}, "mystore", false},
		{Storage{ConnectionString: "BlobEndpoint=http://127.0.0.1:1/mystore;SharedAccessSignature=sig=x"}, "", true},
		{Storage{ConnectionString: emulator}, "", true},
		{Storage{BlobURL: "https://mystore.blob.core.windows.net"}, "mystore", false},
		{Storage{BlobURL: "https://storage.example"}, "", false},
	} {
		if account, local := tt.storage.Account(), tt.storage.Local(); account != tt.account || local != tt.local {
			t.Errorf("%#v: account %q, local %t, want %q, %t", tt.storage, account, local, tt.account, tt.local)
		}
	}
}

// TestDisabled: the settings that switch functions off, in the forms that the
// host reads.
func TestDisabled(t *testing.T) {
	cfg, err := Load(map[string]string{
		"AzureWebJobsStorage":                  emulator,
		"AzureWebJobs.ChannelCleanup.Disabled": "True",
		"AzureWebJobs__ProcessWork1__Disabled": "1",
		"AZUREWEBJOBS_PROCESSWORK1_DISABLED":   "true",
		"AzureWebJobs.BatchSweep.Disabled":     "false",
		"AzureWebJobs.ScaleCheck.Disabled.Not": "true",
		"AzureWebJobs.ChannelSweep.Enabled":    "true",
		"MyAzureWebJobs.ProcessWork.Disabled":  "true",
	})
	if want := []string{"channelcleanup", "processwork1"}; err != nil || !slices.Equal(cfg.Disabled, want) {
		t.Errorf("%q, %v, want %q", cfg.Disabled, err, want)
	}
}
