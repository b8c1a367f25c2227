package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"kennel"
	"kennel/kenneltest"
)

// run runs the program on storage in memory. Its dispatches are effects that the
// test sees and can make fail.
func run(t *testing.T, f func(*kenneltest.Kit)) {
	kenneltest.Run(t, func(k *kenneltest.Kit) kennel.Program {
		return newShop(func(_ context.Context, key string, _ Order) error { return k.Effect("dispatch", key, nil) }).program
	}, f, &kenneltest.Options{Settings: map[string]string{"GREETING": "Danke"}})
}

// TestOrder: an order that was answered is dispatched, although the first
// attempt fails.
func TestOrder(t *testing.T) {
	run(t, func(k *kenneltest.Kit) {
		k.FailEffect("dispatch", false)
		status, text := post(t, k, `{"customer":"ann","item":"lamp"}`)
		if status != http.StatusAccepted || !strings.HasPrefix(text, "Danke, ann: order ") {
			t.Errorf("POST /api/orders: %d %s", status, text)
		}
		k.Settle()
		if got := k.Effects("dispatch"); len(got) != 1 || !strings.Contains(text, got[0].Key) {
			t.Errorf("dispatched: %v, want the order of the answer once", got)
		}
	})
}

// TestInvalidOrder: an order without an item is refused and not queued.
func TestInvalidOrder(t *testing.T) {
	run(t, func(k *kenneltest.Kit) {
		if status, text := post(t, k, `{"customer":"ann"}`); status != http.StatusBadRequest {
			t.Errorf("POST /api/orders: %d %s", status, text)
		}
		k.Settle()
		if got := k.Effects("dispatch"); len(got) != 0 {
			t.Errorf("dispatched: %v, want nothing", got)
		}
	})
}

func post(t *testing.T, k *kenneltest.Kit, order string) (status int, text string) {
	t.Helper()
	resp, err := k.Client().Post("/api/orders", "application/json", strings.NewReader(order))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}
