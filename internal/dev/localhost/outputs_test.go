package localhost

import (
	"strings"
	"testing"
)

// TestQueueOutput: with one more binding a function gets an envelope although
// forwarding is on. An answer with something for the queue fails.
func TestQueueOutput(t *testing.T) {
	t.Parallel()
	wrap := func(queueBinding string) string {
		return `{"bindings":[{"type":"httpTrigger","name":"req","route":"` + queueBinding + `/{*rest}"},` + httpOutput +
			`,{"type":"queue","direction":"out","name":"` + queueBinding + `","queueName":"letters"}]}`
	}
	app := rawApp()
	app["Wrap/function.json"], app["Sends/function.json"] = wrap("unused"), wrap("res2")
	r := start(t, app, Options{})
	if resp, body := r.call(t, "GET", "/api/unused/..%5Craw%5Cx", nil); resp.StatusCode != 201 || resp.Header.Get("X-Function") != "/Wrap" || !strings.Contains(body, `"Url":"`+r.URL()+`/api/unused/..%5Craw%5Cx"`) {
		t.Errorf("got %d from %q, %s; want the envelope of Wrap with the address as it was sent", resp.StatusCode, resp.Header.Get("X-Function"), body)
	}
	if resp, _ := r.call(t, "GET", "/api/res2?do=also", nil); resp.StatusCode != 500 {
		t.Errorf("an output for a queue: got %d, want 500", resp.StatusCode)
	}
	r.await(t, `output "res2" is for queue letters, and this local host does not support outputs to queues`)
}
