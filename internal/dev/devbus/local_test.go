package devbus_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"kennel/internal/dev/devbus"
)

// One address is both used and administered.
func TestLocalSpeaksBoth(t *testing.T) {
	b, err := devbus.Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	address, _, _ := strings.Cut(strings.TrimPrefix(b.ConnectionString(), "Endpoint=sb://"), ";")

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
	b.Close()
	if _, err := new(net.Dialer).DialContext(t.Context(), "tcp4", address); err == nil {
		t.Error("it still listens after it was closed")
	}
}
