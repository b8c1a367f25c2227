package run

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kennel/internal/config"
	"kennel/internal/dev/devbus"
	"kennel/internal/dev/project"
	"kennel/relay"
)

func TestEntityNames(t *testing.T) {
	got, err := EntityNames([]string{"orders", "eu~invoices", "eu/Refunds.v2", "a"})
	if want := []string{"orders", "eu/invoices", "eu/Refunds.v2", "a"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for text, entities := range map[string][]string{
		`the queue name "" is invalid`:          {""},
		`the queue name "/orders" is invalid`:   {"/orders"},
		`the queue name "orders~" is invalid`:   {"orders~"},
		`the queue name "a b" is invalid`:       {"orders", "a b"},
		`the queue name "orders\n" is invalid`:  {"orders\n"},
		`the queue name "aaaaaaa`:               {strings.Repeat("a", 261)},
		`the queue name "Signals" is taken`:     {"Signals"},
		`the queue name "eu~Invoices" is taken`: {"eu/invoices", "eu~Invoices"},
	} {
		if _, err := EntityNames(entities); err == nil || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("%q: got error %v, want %s", entities, err, text)
		}
	}
	if _, err := EntityNames([]string{strings.Repeat("a", 260)}); err != nil {
		t.Errorf("260 characters: %v", err)
	}
}

// A bus of the settings has its own queues.
func TestEntitiesNeedDevelopmentBuses(t *testing.T) {
	env := map[string]string{"ServiceBus__fullyQualifiedNamespace": "bus.servicebus.windows.net"}
	_, err := New(&project.Project{Root: t.TempDir()}, env, &Options{Entities: []string{"orders"}})
	if err == nil || !strings.Contains(err.Error(), "the settings name a Service Bus") {
		t.Errorf("got error %v, want that the settings name a bus", err)
	}
}

// The app finds its backlog queues as in a deployment, from the beginning.
func TestBacklogQueues(t *testing.T) {
	app, err := New(&project.Project{Root: t.TempDir()}, map[string]string{"KENNEL_BACKLOG_QUEUES": "3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := app.startBuses()
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	name := config.ServiceBus{ConnectionString: b.primary.ConnectionString()}.Name()
	for _, queue := range relay.BacklogQueues(name, 3) {
		if err := b.secondary.CreateQueue(queue, nil); !errors.Is(err, devbus.ErrExists) {
			t.Errorf("%s: got %v, want that it exists", queue, err)
		}
	}
}
