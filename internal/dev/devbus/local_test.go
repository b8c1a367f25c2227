package devbus

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A local broker serves messages and administrators at one address. Close ends
// all connections, even frozen ones and those that have sent nothing yet.
func TestLocal(t *testing.T) {
	b, err := Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	address := b.listener.Addr().String()
	connect := func() *rawClient {
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
		return newRawClient(t, nc)
	}
	get := func() (int, error) {
		resp, err := http.Get("http://" + address + "/$Resources/queues?api-version=2021-05")
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}

	if status, err := get(); status != http.StatusUnauthorized || err != nil {
		t.Errorf("administration without a token: got %d and error %v, want 401", status, err)
	}
	b.Fail(Fault{Kind: RefuseDial})
	if status, err := get(); err == nil {
		t.Errorf("administration while connections are refused: got %d", status)
	}
	refused := connect()
	refused.nc.Write([]byte("AMQP"))
	if n, err := refused.nc.Read(make([]byte, 1)); err == nil {
		t.Errorf("got %d bytes although connections are refused", n)
	}
	b.Heal()

	silent, frozen := connect(), connect()
	frozen.handshake()
	b.Fail(Fault{Kind: Freeze})
	b.Close()
	frozen.wantEnd()
	if _, err := silent.nc.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection that sent nothing ended with %v, want EOF", err)
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("the port is still open after Close")
	}
}
