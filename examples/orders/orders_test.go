package orders

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"kennel"
	"kennel/kenneltest"
)

// TestAPI: an order is taken, and one without a customer is refused.
func TestAPI(t *testing.T) {
	kenneltest.Run(t, func(*kenneltest.Kit) kennel.Program { return API }, func(k *kenneltest.Kit) {
		for body, want := range map[string]int{`{"customer":"ann","item":"lamp"}`: 202, `{"item":"lamp"}`: 400, `lamp`: 400} {
			r, err := http.NewRequestWithContext(t.Context(), "POST", "/api/orders", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := k.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s: %d, want %d", body, answer.StatusCode, want)
			}
		}
	}, &kenneltest.Options{Name: Program})
}

// TestWorker: an order is shipped once under its id, also if the first call of the
// warehouse fails although it was made.
func TestWorker(t *testing.T) {
	build := func(k *kenneltest.Kit) kennel.Program {
		return Worker(func(_ context.Context, id string, _ Order) error { return k.Effect("ship", id, nil) })
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		k.FailEffect("ship", true)
		sent := k.Send("orders", Order{"ann", "lamp"}, nil)
		k.Settle()
		ships := k.Effects("ship")
		if len(ships) != 2 || ships[0].Key != sent.ID || ships[1].Key != sent.ID {
			t.Errorf("shipped %v: want two calls with one key, of which the warehouse drops the second", ships)
		}
	}, &kenneltest.Options{Name: Program})
}
