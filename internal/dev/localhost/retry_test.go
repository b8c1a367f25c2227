package localhost

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const queueBinding = `{"type":"queueTrigger","direction":"in","name":"msg","queueName":"%JOBS%"}`

// retried is a function.json with a policy of the strategy fixedDelay.
func retried(bindings string, count int, delay string) string {
	return fmt.Sprintf(`{"retry":{"strategy":"fixedDelay","maxRetryCount":%d,"delayInterval":"%s"},"bindings":[%s]}`, count, delay, bindings)
}

// TestRetriedMessage checks that each delivery of a message is tried 1 + n
// times with the same dequeue count and then counts as one failure.
func TestRetriedMessage(t *testing.T) {
	t.Parallel()
	app := plainApp()
	app["Work/function.json"] = retried(queueBinding, 2, "00:00:00")
	queues := newQueues(t)
	r := start(t, app, Options{Queues: queues})
	r.await(t, "Soon retries will not be supported for function 'Work'")
	queues.put(t, "jobs", base("status:500"))
	r.await(t, "moved to 'jobs-poison'")
	r.await(t, "delivery 5 retry 2 of 2") // written by the handler, so it may come later
	var want []string
	for delivery := range 5 {
		for retry := range 3 {
			want = append(want, fmt.Sprintf("delivery %d retry %d of 2", delivery+1, retry))
		}
	}
	var got []string
	for line := range strings.Lines(r.console.String()) {
		if attempt, failure, ok := strings.Cut(line, " after "); ok && strings.HasPrefix(line, "delivery") {
			got = append(got, attempt)
			if first := strings.Contains(attempt, "retry 0"); first == strings.Contains(failure, "the status is not 2xx") {
				t.Errorf("%s: the handler got the failure %s", attempt, failure)
			}
		}
	}
	same(t, "attempts", got, want)
	r.await(t, "Function execution of 'Work' failed after '2' retries.", 5)

	queues.put(t, "jobs", base("until:2"))
	r.await(t, "Executed 'Work' (Succeeded")
	r.end(t)
	if left := queues.bodies("jobs"); len(left) > 0 {
		t.Errorf("queue after a retry that succeeded: got %q, want none", left)
	}
}

// TestRetriedCall checks that the policy of host.json applies to functions
// without their own, that one without a limit goes on, and that each attempt
// has an invocation of its own.
func TestRetriedCall(t *testing.T) {
	t.Parallel()
	app := enveloped(plainApp())
	app["host.json"] = strings.Replace(app["host.json"], "{", `{"retry":{"maxRetryCount":-1,"minimumInterval":"00:00:00","maximumInterval":"00:01:00"},`, 1)
	app["Twice/function.json"] = retried(`{"type":"httpTrigger","name":"req"},`+httpOutput, 1, "00:00:00")
	r := start(t, app, Options{Queues: newQueues(t)})
	for path, want := range map[string]int{"/api/raw/x?do=until:7": 201, "/api/twice?do=until:1": 201, "/api/twice?do=until:2": 500} {
		if resp, _ := r.call(t, "GET", path, nil); resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", path, resp.StatusCode, want)
		}
	}
	var ids []string
	for line := range strings.Lines(r.console.String()) {
		if _, id, ok := strings.Cut(line, "Executing 'Raw'"); ok {
			ids = append(ids, id)
		}
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != 8 {
		t.Errorf("invocations: got %q, want eight with different ids", ids)
	}
}

// TestStopEndsRetries checks that a stopping host does not wait for a repeat.
func TestStopEndsRetries(t *testing.T) {
	t.Parallel()
	app := plainApp()
	app["Work/function.json"] = retried(queueBinding, 1, "01:00:00")
	queues := newQueues(t)
	r := start(t, app, Options{Queues: queues})
	queues.put(t, "jobs", base("status:500"))
	r.await(t, "Waiting for `01:00:00` before retrying")
	r.end(t)
	r.await(t, "The host stops and does not retry 'Work' again")
	same(t, "queue", queues.bodies("jobs"), []string{base("status:500")})
}

func TestRetryDelays(t *testing.T) {
	fixed := retryPolicy{count: 9, low: 3 * time.Second, high: 3 * time.Second}
	growing := retryPolicy{count: unlimitedRetries, low: 10 * time.Second, high: 2 * time.Minute}
	for repeat, want := range map[int]struct{ low, high time.Duration }{
		1:       {10 * time.Second, 10 * time.Second},
		2:       {18 * time.Second, 22 * time.Second},
		3:       {26 * time.Second, 34 * time.Second},
		4:       {42 * time.Second, 58 * time.Second},
		6:       {2 * time.Minute, 2 * time.Minute},
		1 << 40: {2 * time.Minute, 2 * time.Minute},
	} {
		if got := growing.delay(repeat); got < want.low || got > want.high {
			t.Errorf("exponential delay %d: got %v, want %v to %v", repeat, got, want.low, want.high)
		}
		if got := fixed.delay(repeat); got != 3*time.Second {
			t.Errorf("fixed delay %d: got %v, want 3s", repeat, got)
		}
	}
}
