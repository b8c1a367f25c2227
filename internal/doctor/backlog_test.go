package doctor

import (
	"slices"
	"strings"
	"testing"

	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/dev/devbus"
)

// TestDoctorBacklog checks what is found about the secondary namespace.
func TestDoctorBacklog(t *testing.T) {
	t.Parallel()
	both := []string{"backlog receive", "backlog send"}
	const queue = "kennel/x-servicebus-transfer/0"
	grant := `az role assignment create --assignee c1 --role "Azure Service Bus Data Owner" --scope "$(az servicebus namespace list --query "[?name=='kennel2'].id" --output tsv)"`
	for _, tt := range []struct {
		name   string
		fault  devbus.Fault
		exists bool // the queue
		failed []string
		fix    string
	}{
		{"fine", devbus.Fault{}, true, nil, ""},
		{"no queue yet", devbus.Fault{}, false, nil, ""},
		{"no queue, and may not manage", devbus.Fault{Kind: devbus.Admin, Status: 401}, false, both, grant},
		{"may not attach", devbus.Fault{Kind: devbus.RefuseAttach, Entity: queue, Condition: "amqp:unauthorized-access"}, true, both, grant},
		{"down", devbus.Fault{Kind: devbus.RefuseDial}, true, both, "az servicebus namespace list"},
	} {
		bus, _ := apptest.WithBus(t)
		if tt.exists {
			if err := bus.CreateQueue(queue, nil); err != nil {
				t.Fatal(err)
			}
		}
		if tt.fault.Kind != 0 {
			bus.Fail(tt.fault)
		}
		cfg := inAzure()
		cfg.BacklogQueues = 2
		cfg.ServiceBus = config.ServiceBus{Namespace: "kennel.servicebus.windows.net", ManagedIdentity: true, ClientID: "c1"}
		cfg.ServiceBusSecondary = config.ServiceBus{ConnectionString: bus.ConnectionString()}
		m := mender{cfg}
		findings := make(map[string]Finding)
		for _, f := range Diagnose(t.Context(), backlogChecks(cfg, m)) {
			findings[f.Name] = f
			if strings.Contains(f.Detail+f.Fix, "SharedAccessKey=") || f.OK && f.Detail != "queue "+queue+" of "+cfg.ServiceBusSecondary.Host() {
				t.Errorf("%s: %+v", tt.name, f)
			}
		}
		if got := failed(findings); !slices.Equal(got, tt.failed) || len(findings) != 2 {
			t.Errorf("%s: %q failed, want %q: %+v", tt.name, got, tt.failed, findings)
		}
		// The commands are those of a namespace in Azure.
		lanes := backlogChecks(cfg, m)
		for _, lane := range lanes {
			for _, c := range lane {
				_, err := c.Do(t.Context())
				inCloud := config.ServiceBus{Namespace: "kennel2.servicebus.windows.net", ManagedIdentity: true, ClientID: "c1"}
				if err != nil && !strings.Contains(m.namespace(inCloud, "ServiceBusSecondary", err), tt.fix) {
					t.Errorf("%s: the fix of %v is %s, want %s", tt.name, err, m.namespace(inCloud, "ServiceBusSecondary", err), tt.fix)
				}
			}
		}
	}
}
