package run

import (
	"testing"

	"kennel/internal/config"
)

// What is handed to the app is what its settings accept.
func TestBusesAreGoodSettings(t *testing.T) {
	b, err := startBuses()
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	c, err := config.Load(map[string]string{
		storageSetting: developmentStorage, busSetting: b.primary.ConnectionString(), standInBus: b.secondary.ConnectionString(),
	})
	if err != nil || !c.ServiceBus.Given() || !c.ServiceBusSecondary.Given() {
		t.Errorf("loaded %v and %v, %v", c.ServiceBus, c.ServiceBusSecondary, err)
	}
	if got := b.primary.Entities(); len(got) != 1 || got[0] != signalsTopic {
		t.Errorf("the bus holds %q, want the topic of the signals", got)
	}
}
