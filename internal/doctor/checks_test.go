package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/servicebus"
	"kennel/internal/config"
)

func TestDoctorClock(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const slow = 20 * time.Second // the round trip
	for _, tt := range []struct {
		sent, received time.Duration // after at
		want           string
	}{
		{0, 0, "within 1m0s"},
		{0, time.Second, "within 1m0s"},
		{time.Minute + time.Second, time.Minute + time.Second, "within 1m0s"},
		{time.Minute + 1100*time.Millisecond, time.Minute + 1100*time.Millisecond, "is 1m0.6s ahead of storage's"},
		{-time.Minute - time.Second, -time.Minute - time.Second, "is 1m1.5s behind storage's"},
		{time.Minute, time.Minute + slow, "within 1m0s"}, // it may have been read at any time between
		{time.Minute + 2*time.Second, time.Minute + slow, "is 1m10.5s ahead"},
	} {
		detail, err := checkClock(at.Add(tt.sent), at.Add(tt.received), at)
		if err != nil {
			detail = err.Error()
		}
		if !strings.Contains(detail, tt.want) {
			t.Errorf("%v to %v: %s, want %s", tt.sent, tt.received, detail, tt.want)
		}
	}
}

func TestDoctorSettings(t *testing.T) {
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
	if err != nil {
		t.Fatal(err)
	}
	file := func(text string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(text), nil }
	}
	for _, tt := range []struct {
		cfg       config.Config
		host, fix string
		want      string
	}{
		{cfg, `{"functionTimeout":"00:05:00"}`, "", "valid"},
		{cfg, `{}`, "", "valid"},
		{cfg, `{"functionTimeout":"00:01:00"}`, `export KENNEL_INVOCATION_TIMEOUT="54s"`, "KENNEL_INVOCATION_TIMEOUT is 4m30s and not shorter than functionTimeout in host.json"},
		{cfg, `{"functionTimeout":`, "kennel package", "host.json is not valid JSON"},
		{config.Config{Warnings: []config.Warning{{Text: "X is wrong", Setting: "X"}}}, `{}`, "unset X", "X is wrong"},
		{config.Config{Warnings: []config.Warning{{Text: "X is wrong", Setting: "X"}}, Platform: inAzure().Platform}, `{}`,
			"az functionapp config appsettings delete --name my-app --resource-group my-group --setting-names X", "X is wrong"},
	} {
		detail, err := checkSettings(tt.cfg, file(tt.host))
		fix := ""
		if err != nil {
			detail, fix = err.Error(), mender{tt.cfg}.setting(err)
		}
		if !strings.Contains(detail, tt.want) || (fix == "") != (tt.fix == "") || !strings.HasPrefix(fix, tt.fix) {
			t.Errorf("host.json %s: %s, fix %q; want %s, fix %q", tt.host, detail, fix, tt.want, tt.fix)
		}
	}
	if _, err := checkVersions(config.Platform{Host: "~3"}); err == nil || !strings.HasPrefix(mender{}.setting(err), `export FUNCTIONS_EXTENSION_VERSION="~4"`) {
		t.Errorf("host ~3: %v", err)
	}
}

// TestDoctorFixes checks the commands for errors of storage.
func TestDoctorFixes(t *testing.T) {
	denied := &azure.Error{Status: 403, Code: "AuthorizationPermissionMismatch"}
	byKey := config.Storage{ConnectionString: "AccountName=mystore;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net"}
	user := config.Storage{BlobURL: "https://mystore.blob.core.windows.net", ManagedIdentity: true, ClientID: "c1"}
	for _, tt := range []struct {
		name    string
		storage config.Storage
		err     error
		want    string
	}{
		{"user-assigned", user, denied, `az role assignment create --assignee c1 --role "R" --scope`},
		{"developer", config.Storage{BlobURL: user.BlobURL}, denied, `--assignee "$(az ad signed-in-user show --query id --output tsv)"`},
		{"unknown account", config.Storage{BlobURL: "https://storage.example", ManagedIdentity: true}, denied, "show --name ACCOUNT --query id"},
		{"wrong key", byKey, &azure.Error{Status: 403, Code: "AuthenticationFailed"}, `--settings AzureWebJobsStorage="$(az storage account show-connection-string --name mystore`},
		{"no keys", byKey, &azure.Error{Status: 403, Code: "KeyBasedAuthenticationNotPermitted"}, `--settings AzureWebJobsStorage__accountName="mystore" AzureWebJobsStorage__credential=managedidentity && `},
		{"emulator", config.Storage{ConnectionString: "UseDevelopmentStorage=true"}, errors.New("connection refused"), "kennel up # after you stopped it: its storage at 127.0.0.1:10000 does not answer"},
		{"emulator at other ports", config.Storage{ConnectionString: "AccountName=devstoreaccount1;AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:1234/devstoreaccount1;QueueEndpoint=http://127.0.0.1:1235/devstoreaccount1"},
			context.DeadlineExceeded, "kennel up # after you stopped it: its storage at 127.0.0.1:1234 does not answer"},
		{"emulator with a full disk", config.Storage{ConnectionString: "UseDevelopmentStorage=true"}, &azure.Error{Status: 500, Code: "InternalError"},
			"kennel up # after you stopped it and made room on the disk: its storage at 127.0.0.1:10000 fails"},
		{"busy", user, &azure.Error{Status: 503, Code: "ServerBusy"}, "az storage account show --name mystore"},
		{"silent", user, context.DeadlineExceeded, "az storage account show --name mystore"},
		{"no identity", user, errors.New("no identity"), `az functionapp identity assign --name my-app --resource-group my-group --identities "$(az identity list --query "[?clientId=='c1'].id" --output tsv)"`},
		{"signed out", config.Storage{BlobURL: user.BlobURL}, errors.New("no identity"), "az login"},
	} {
		m := mender{config.Config{Storage: tt.storage, Platform: inAzure().Platform}}
		if got := m.storage("R")(tt.err); !strings.Contains(got, tt.want) || strings.Contains(got, "c2VjcmV0") {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	if got := (mender{}).app(); got != "--name APP --resource-group GROUP" {
		t.Errorf("unknown app: %s", got)
	}
}

// TestDoctorFixesByIdentity: where one service is used by identity, no fix is a
// key of the other one.
func TestDoctorFixesByIdentity(t *testing.T) {
	const (
		busKey     = "Endpoint=sb://mybus.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=c2VjcmV0"
		storageKey = "AccountName=mystore;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net"
		set        = "az functionapp config appsettings set --name my-app --resource-group my-group --settings "
		remove     = " && az functionapp config appsettings delete --name my-app --resource-group my-group --setting-names "
	)
	identity := config.Storage{BlobURL: "https://mystore.blob.core.windows.net", ManagedIdentity: true, ClientID: "c1"}
	byIdentity := config.ServiceBus{Namespace: "mybus.servicebus.windows.net", ManagedIdentity: true, ClientID: "c1"}
	platform := inAzure().Platform
	bus, storage := mender.bus, func(m mender, err error) string { return m.storage("R")(err) }
	denied := fmt.Errorf("%w: 401", servicebus.ErrDenied)
	wrongKey := &azure.Error{Status: 403, Code: "AuthenticationFailed"}
	for _, tt := range []struct {
		name string
		cfg  config.Config
		fix  func(mender, error) string
		err  error
		want string
	}{
		{"bus by key", config.Config{Storage: identity, ServiceBus: config.ServiceBus{ConnectionString: busKey}, Platform: platform}, bus, denied,
			set + `ServiceBus__fullyQualifiedNamespace="mybus.servicebus.windows.net" ServiceBus__credential=managedidentity ServiceBus__clientId=c1` + remove + "ServiceBus"},
		{"storage by key", config.Config{Storage: config.Storage{ConnectionString: storageKey}, ServiceBus: byIdentity, Platform: platform}, storage, wrongKey,
			set + `AzureWebJobsStorage__accountName="mystore" AzureWebJobsStorage__credential=managedidentity AzureWebJobsStorage__clientId=c1` + remove + "AzureWebJobsStorage"},
		{"a developer", config.Config{Storage: config.Storage{BlobURL: identity.BlobURL}, ServiceBus: config.ServiceBus{ConnectionString: busKey}}, bus, denied,
			`export ServiceBus__fullyQualifiedNamespace="mybus.servicebus.windows.net" && unset ServiceBus # or delete it from local.settings.json`},
		{"both by identity", config.Config{Storage: identity, ServiceBus: byIdentity, Platform: platform}, bus, denied,
			`az role assignment create --assignee c1 --role "Azure Service Bus Data Owner" --scope "$(az servicebus namespace list --query "[?name=='mybus'].id" --output tsv)"`},
		{"both by key", config.Config{Storage: config.Storage{ConnectionString: storageKey}, ServiceBus: config.ServiceBus{ConnectionString: busKey}, Platform: platform}, bus, denied,
			set + `ServiceBus="$(az servicebus namespace authorization-rule keys list --name RootManageSharedAccessKey --namespace-name mybus --resource-group my-group --query primaryConnectionString --output tsv)"`},
	} {
		if got := tt.fix(mender{tt.cfg}, tt.err); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestDoctorWithoutChannels: an account for blobs alone is a choice.
func TestDoctorWithoutChannels(t *testing.T) {
	account := azure.Account{BlobURL: "https://mystore.blob.core.windows.net"}
	for _, lanes := range [][][]Check{tableChecks(account, nil, nil, mender{}), queueChecks(account, nil, nil, mender{})} {
		for _, f := range Diagnose(t.Context(), lanes) {
			if !f.OK || !strings.Contains(f.Detail, "channels are not served: open "+strings.TrimSuffix(f.Name, "s")+" storage") {
				t.Errorf("%+v, want it ok", f)
			}
		}
	}
}
