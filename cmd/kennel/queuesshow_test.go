package main

import (
	"strings"
	"testing"

	"kennel/client"
)

// TestDescribeQueue: a queue is shown with its rates, and a former name with the
// queue that drains it.
func TestDescribeQueue(t *testing.T) {
	for _, tt := range []struct {
		name  string
		queue client.Queue
		want  string
		no    string
	}{
		{"rates", client.Queue{Queue: "emails", Own: true, Handled: true, DonePerSecond: 4.25, FailedPerSecond: 0.1}, "4.25 messages a second are done, and 0.1 attempts a second fail", "former"},
		{"no work", client.Queue{Queue: "emails", Own: true, Handled: true}, "attempts at a time", "a second"},
		{"a former name", client.Queue{Queue: "mail", DrainedBy: []string{"emails", "bills"}}, "it is a former name that is drained by emails and bills", "built-in"},
		{"a built-in one", client.Queue{Queue: "work-0"}, "it belongs to a built-in part", "former"},
	} {
		if text := describeQueue(tt.queue); !strings.Contains(text, tt.want) || strings.Contains(text, tt.no) {
			t.Errorf("%s: %s", tt.name, text)
		}
	}
}
