package config

import (
	"maps"
	"strings"
	"testing"
)

func TestServiceBus(t *testing.T) {
	const (
		emulator = "Endpoint=sb://127.0.0.1:5673;SharedAccessKeyName=Root;SharedAccessKey=none;UseDevelopmentEmulator=true;"
		name     = "kennel.servicebus.windows.net"
	)
	for _, tt := range []struct {
		name     string
		env      map[string]string
		want     ServiceBus
		problems []string
	}{
		{"blank", map[string]string{"ServiceBus": " "}, ServiceBus{}, nil},
		{"connection string", map[string]string{"ServiceBus": bus}, ServiceBus{ConnectionString: bus}, nil},
		{"emulator", map[string]string{"ServiceBus": emulator}, ServiceBus{ConnectionString: emulator}, nil},
		{"parts in any case", map[string]string{"servicebus": strings.ToLower(bus)}, ServiceBus{ConnectionString: strings.ToLower(bus)}, nil},
		{"signature", map[string]string{"ServiceBus": "Endpoint=sb://kennel.servicebus.windows.net;SharedAccessSignature=SharedAccessSignature sr=x&sig=y"},
			ServiceBus{ConnectionString: "Endpoint=sb://kennel.servicebus.windows.net;SharedAccessSignature=SharedAccessSignature sr=x&sig=y"}, nil},
		{"identity", map[string]string{"ServiceBus__fullyQualifiedNamespace": name}, ServiceBus{Namespace: name}, nil},
		{"managed identity", map[string]string{"ServiceBus:fullyQualifiedNamespace": name, "ServiceBus__credential": "ManagedIdentity", "ServiceBus__clientId": "1f0c"},
			ServiceBus{Namespace: name, ManagedIdentity: true, ClientID: "1f0c"}, nil},

		{"storage's", map[string]string{"ServiceBus": withKey}, ServiceBus{}, []string{"ServiceBus is not a Service Bus connection string"}},
		{"no key", map[string]string{"ServiceBus": "Endpoint=sb://kennel.servicebus.windows.net/;SharedAccessKeyName=Root"}, ServiceBus{}, []string{"has neither SharedAccessKeyName with"}},
		{"not sb", map[string]string{"ServiceBus": strings.Replace(bus, "sb:", "https:", 1)}, ServiceBus{}, []string{"Endpoint that is not of the form sb://"}},
		{"one entity's", map[string]string{"ServiceBus": bus + ";EntityPath=orders"}, ServiceBus{}, []string{"has an EntityPath"}},
		{"half an emulator's", map[string]string{"ServiceBus": bus + ";UseDevelopmentEmulator=1"}, ServiceBus{}, []string{"UseDevelopmentEmulator that is neither true nor false"}},
		{"part twice", map[string]string{"ServiceBus": bus + ";endpoint=sb://x/"}, ServiceBus{}, []string{"has Endpoint twice"}},
		{"no namespace", map[string]string{"ServiceBus__credential": "managedidentity"}, ServiceBus{}, []string{"ServiceBus__fullyQualifiedNamespace must be"}},
		{"bare name", map[string]string{"ServiceBus__fullyQualifiedNamespace": "kennel"}, ServiceBus{}, []string{"NAME.servicebus.windows.net"}},
		{"address", map[string]string{"ServiceBus__fullyQualifiedNamespace": "sb://" + name}, ServiceBus{}, []string{"NAME.servicebus.windows.net"}},
		{"secondary alone", map[string]string{"ServiceBusSecondary": bus}, ServiceBus{}, []string{"ServiceBusSecondary is set without ServiceBus"}},
		{"secondary the same", map[string]string{"ServiceBus": bus, "ServiceBusSecondary": bus}, ServiceBus{}, []string{"use another namespace or remove it"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}
			maps.Copy(env, tt.env)
			if c, ok := expectProblems(t, env, tt.problems); ok && c.ServiceBus != tt.want {
				t.Errorf("loaded %#v, want %#v", c.ServiceBus, tt.want)
			}
		})
	}
}

// TestName: the name is part of those of the backlog queues, so all processes
// must agree on it.
func TestName(t *testing.T) {
	for want, s := range map[string]ServiceBus{
		"kennel":    {ConnectionString: bus},
		"sb-1":      {Namespace: "sb-1.servicebus.windows.net"},
		"localhost": {ConnectionString: "Endpoint=sb://localhost:5672;UseDevelopmentEmulator=true"},
		"127":       {ConnectionString: "Endpoint=sb://127.0.0.1:5672;UseDevelopmentEmulator=true"},
		"local":     {ConnectionString: "Endpoint=sb://[::1]:5672;UseDevelopmentEmulator=true"},
	} {
		if got := s.Name(); got != want {
			t.Errorf("%s has the name %q, want %q", s, got, want)
		}
	}
}
