package scale_test

import (
	"fmt"
	"time"

	"kennel/internal/scale"
)

// A batch of 3,000 messages arrives at a worker of one instance.
func ExampleAdvise() {
	var rules scale.Rules // the default rules
	var state scale.State // stored from one reading to the next
	reading := scale.Reading{
		At: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC), LatencyTarget: 15 * time.Minute, Instances: 1, Hands: 32,
		Samples: []scale.Sample{{Queue: "work-0", Working: 14, CompletionsPerSecond: 0.5, ResponseSeconds: 28}},
	}
	advice, state := scale.Advise(rules, state, reading)
	fmt.Println(advice.Reason)

	reading.At = reading.At.Add(time.Minute)
	reading.Samples[0].Ready, reading.Samples[0].Working, reading.Samples[0].OldestSeconds = 3000, 28, 30
	advice, state = scale.Advise(rules, state, reading)
	fmt.Println(advice.Reason)
	fmt.Println(advice.Queues[0].Reason)
	_ = state
	// Output:
	// 1 instance as before: no message is ready.
	// 5 instances, 4 more than before, because 1 instance would need 43m21s for 3,000 messages in 1 queue (2,972 of them confirmed), which must be done in 11m33s.
	// 32 hands, because it has 3,000 messages.
}
