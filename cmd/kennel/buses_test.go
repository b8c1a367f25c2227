package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"kennel/internal/config"
)

// What is handed to the app is what its settings accept.
func TestBusesAreGoodSettings(t *testing.T) {
	b, err := startBuses()
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(map[string]string{
		storageSetting: developmentStorage, busSetting: b.primary.connection, standInBus: b.secondary.connection,
	})
	if err != nil || !c.ServiceBus.Given() || !c.ServiceBusSecondary.Given() {
		t.Errorf("loaded %v and %v, %v", c.ServiceBus, c.ServiceBusSecondary, err)
	}
	if got := b.primary.broker.Entities(); len(got) != 1 || got[0] != signalsTopic {
		t.Errorf("the bus holds %q, want the topic of the signals", got)
	}
	b.stop()
}

// One address is both used and administered.
func TestBusSpeaksBoth(t *testing.T) {
	b, err := startBus("primary")
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	address, _, _ := strings.Cut(strings.TrimPrefix(b.connection, "Endpoint=sb://"), ";")

	resp, err := http.Get("http://" + address + "/$Resources/queues?api-version=2021-05")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("administration without a token: %s, want 401", resp.Status)
	}

	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const sasl = "AMQP\x03\x01\x00\x00"
	io.WriteString(conn, sasl)
	answer := make([]byte, len(sasl))
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != sasl {
		t.Errorf("AMQP: answer %q, %v, want %q", answer, err, sasl)
	}
	b.stop()
	if _, err := new(net.Dialer).DialContext(context.Background(), "tcp4", address); err == nil {
		t.Error("it still listens after it was stopped")
	}
}
