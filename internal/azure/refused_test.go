package azure

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"kennel/channels"
)

// TestRefused: what the service declines was not done and is not worth asking
// again; all that is passing, or went wrong within it, is no such word.
func TestRefused(t *testing.T) {
	row := channels.Row{Partition: "p", Key: "a"}
	for _, test := range []struct {
		status int
		code   string
		want   bool
	}{
		{400, "InvalidInput", true},
		{403, "AuthorizationPermissionMismatch", true},
		{403, "AccountIsDisabled", true},
		{409, "TableBeingDeleted", true},
		{408, "RequestTimeout", false},
		{429, "TooManyRequests", false},
		{500, "OperationTimedOut", false},
		{503, "ServerBusy", false},
	} {
		table := openScripted(t, refuse(test.status, test.code))
		inside := openScripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", multipart202)
			w.WriteHeader(http.StatusAccepted)
			status := fmt.Sprint(test.status, " ", http.StatusText(test.status))
			fmt.Fprint(w, changeset(refusedPart(status, test.code, "1:No")))
		})
		queues, err := scripted(t, refuse(test.status, test.code)).OpenQueues(nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, do := range map[string]func() error{
			"get":   func() error { _, err := table.Get(t.Context(), "p", "a"); return err },
			"query": func() error { _, err := table.Query(t.Context(), channels.Query{Top: 1}); return err },
			"insert": func() error {
				_, err := table.Submit(t.Context(), []channels.Write{{Verb: channels.Insert, Row: row}})
				return err
			},
			"transaction": func() error { _, err := inside.Submit(t.Context(), twoRows); return err },
			"put":         func() error { _, err := NewOutbox(queues, "cleanup").Put(t.Context(), "x", 0); return err },
		} {
			err := do()
			if err == nil || errors.Is(err, channels.ErrRefused) != test.want {
				t.Errorf("%s, %d %s: %v; refused: %v, want %v", name, test.status, test.code, err, !test.want, test.want)
			}
			leakless(t, err)
		}
	}
}
