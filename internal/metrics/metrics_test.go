package metrics

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/cost/bill"
	"kennel/internal/instances"
)

// full is what two processes report.
func full() Set {
	worker := instances.Report{
		Process: instances.Process{Instance: "vm2-812-m5w2cd", Kind: instances.Worker, Version: "v0.1.0"},
		CPU:     0.5, Memory: 30 << 20, Total: instances.Served{Count: 100, Seconds: 12.5},
		Problems: []instances.Problem{{Code: instances.DeadLetters, Subject: "work-0"}, {Code: instances.DeadLetters, Subject: "work-1"}, {Code: "of_a_newer_build"}},
	}
	instances.RunningSection.Add(&worker, map[string]int64{"work-0": 3})
	instances.GateSection.Add(&worker, []instances.Gate{{Name: "hounds", Waiters: 20}})
	instances.RequestSection.Add(&worker, []instances.Requests{{Service: "blob", Operation: "get", Job: "numbers", Count: 12}, {Service: "blob", Operation: "get", Job: "gates", Count: 3}, {Service: "queue", Operation: "put", Count: 1}, {Service: "bus", Operation: "deliver", Job: "signals", Count: 8}})
	instances.WorkSection.Add(&worker, map[string]instances.Work{
		"work-0": {Receives: 500, EmptyReceives: 100, FailedReceives: 1, Done: 9, Repeated: 2, Retried: 3, Returned: 4, DeadLetters: 5, Lost: 6,
			Ages: []int64{7, 1, 0, 0, 0, 0, 0, 0, 0, 2}, AgeSeconds: 99.5, HandSeconds: 4.5},
		"work-1": {Ages: []int64{1, 2, 3}}, // by other bounds
	})
	instances.MessagingSection.Add(&worker, map[string]instances.Messaging{
		"mails": {Sent: 30, SendFailed: 1, Outcomes: map[string]int64{"done": 31, "failed": 2}, Durations: []int64{30, 3, 0, 0, 0, 0, 0, 0, 0, 0}, Seconds: 5.5,
			SuccessAges: []int64{0, 30, 1, 0, 0, 0, 0, 0, 0, 0}, SuccessAgeSeconds: 32.5, LastSuccess: worker.At.Add(-42 * time.Second)},
		"bills": {Sent: 5, SuccessAges: []int64{1, 2, 3}}, // by other bounds
	})
	instances.SendSection.Add(&worker, instances.Sends{Primary: 11, Backlog: 12, Failed: 13, Ambiguous: 14, Throttled: 15, Failovers: 16, Failbacks: 17, Moved: 18, DeadLettered: 19, Expired: 20})
	instances.RelaySection.Add(&worker, []instances.RelayEntity{{Entity: "orders", State: "failedOver"}, {Entity: "news", State: "suspect"}, {Entity: "bills", State: "healthy"}})
	instances.SequenceSection.Add(&worker, []instances.Sequence{{Name: "orders", Issued: 5, Available: 995, Lost: 7}})
	app := worker
	app.Instance, app.Kind = "vm1-4711-k3x7qa", instances.Functions
	return Set{
		Reports: []instances.Report{app, worker},
		Queues:  map[string]instances.QueueSample{"work-0": {At: time.Now(), Ready: 10, InFlight: 3, Delayed: 1, OldestSeconds: 1.5, Poison: 2}},
		Backlog: &instances.Backlog{At: time.Now(), Entities: []instances.BacklogEntity{{Entity: "orders", Messages: 21, OldestSeconds: 22.5}}},
		Bill: &bill.Bill{Currency: "USD", Today: "0.250000", Month: "1.500000", Jobs: map[string]bill.Job{
			"batches": {Operations: 3000, Amount: "1.000000"}, "host": {Operations: 2000, Amount: "0.500000", Modelled: true},
		}},
	}
}

// values returns the values by name and labels, those of histograms without
// their buckets.
func values(blocks map[string]block) map[string]float64 {
	values := make(map[string]float64)
	for name, b := range blocks {
		for _, s := range b.samples {
			var labels []string
			for _, l := range s.labels {
				labels = append(labels, l.name+"="+l.value)
			}
			if s.suffix != "_bucket" {
				values[name+s.suffix+"{"+strings.Join(labels, ",")+"}"] = s.value
			}
		}
	}
	return values
}

// TestProcess compares all series of a worker.
func TestProcess(t *testing.T) {
	s := full()
	s.Reports = s.Reports[1:]
	blocks := parsed(t, s)
	want := map[string]float64{
		"kennel_info{kind=worker,version=v0.1.0}": 1,
		"kennel_process_cpus{}":                   0.5,
		"kennel_process_resident_bytes{}":         30 << 20,
		"kennel_invocations_total{}":              100,
		"kennel_invocation_seconds_total{}":       12.5,
		"kennel_gate_waiters{gate=hounds}":        20,

		"kennel_sends_total{outcome=primary}":                  11,
		"kennel_sends_total{outcome=backlog}":                  12,
		"kennel_sends_total{outcome=failed}":                   13,
		"kennel_send_attempts_total{outcome=ambiguous}":        14,
		"kennel_send_attempts_total{outcome=throttled}":        15,
		"kennel_failovers_total{to=backlog}":                   16,
		"kennel_failovers_total{to=primary}":                   17,
		"kennel_backlog_drained_total{outcome=moved}":          18,
		"kennel_backlog_drained_total{outcome=dead_letter}":    19,
		"kennel_backlog_drained_total{outcome=expired}":        20,
		"kennel_relay_state{entity=orders}":                    2,
		"kennel_relay_state{entity=news}":                      1,
		"kennel_relay_state{entity=bills}":                     0,
		"kennel_backlog_messages{entity=orders}":               21,
		"kennel_backlog_oldest_message_seconds{entity=orders}": 22.5,

		"kennel_hands{queue=work-0}": 3,
		"kennel_hands{queue=work-1}": 0,

		"kennel_hand_seconds_total{queue=work-0}": 4.5,
		"kennel_hand_seconds_total{queue=work-1}": 0,

		"kennel_queue_receives_total{queue=work-0}":        500,
		"kennel_queue_receives_total{queue=work-1}":        0,
		"kennel_queue_empty_receives_total{queue=work-0}":  100,
		"kennel_queue_empty_receives_total{queue=work-1}":  0,
		"kennel_queue_failed_receives_total{queue=work-0}": 1,
		"kennel_queue_failed_receives_total{queue=work-1}": 0,

		"kennel_queue_messages_total{outcome=done,queue=work-0}":        9,
		"kennel_queue_messages_total{outcome=repeated,queue=work-0}":    2,
		"kennel_queue_messages_total{outcome=retried,queue=work-0}":     3,
		"kennel_queue_messages_total{outcome=returned,queue=work-0}":    4,
		"kennel_queue_messages_total{outcome=dead_letter,queue=work-0}": 5,
		"kennel_queue_messages_total{outcome=lost,queue=work-0}":        6,

		"kennel_message_age_seconds_count{queue=work-0}": 10,
		"kennel_message_age_seconds_sum{queue=work-0}":   99.5,

		"kennel_attempts_total{messaging_destination_name=mails,outcome=done}":                                                               31,
		"kennel_attempts_total{messaging_destination_name=mails,outcome=failed}":                                                             2,
		"kennel_last_success_seconds{messaging_destination_name=mails}":                                                                      42,
		"kennel_success_age_seconds_count{messaging_destination_name=mails,messaging_system=azure_queue_storage}":                            31,
		"kennel_success_age_seconds_sum{messaging_destination_name=mails,messaging_system=azure_queue_storage}":                              32.5,
		"messaging_client_sent_messages_total{error_type=,messaging_destination_name=bills,messaging_system=azure_queue_storage}":            5,
		"messaging_client_sent_messages_total{error_type=,messaging_destination_name=mails,messaging_system=azure_queue_storage}":            30,
		"messaging_client_sent_messages_total{error_type=unconfirmed,messaging_destination_name=mails,messaging_system=azure_queue_storage}": 1,
		"messaging_process_duration_seconds_count{messaging_destination_name=mails,messaging_system=azure_queue_storage}":                    33,
		"messaging_process_duration_seconds_sum{messaging_destination_name=mails,messaging_system=azure_queue_storage}":                      5.5,

		"kennel_queue_depth{kind=ready,queue=work-0}":                10,
		"kennel_queue_depth{kind=in_flight,queue=work-0}":            3,
		"kennel_queue_depth{kind=delayed,queue=work-0}":              1,
		"kennel_queue_depth{kind=dead_letters,queue=work-0}":         2,
		"kennel_queue_oldest_message_seconds{queue=work-0}":          1.5,
		"kennel_sequence_numbers_total{sequence=orders}":             5,
		"kennel_sequence_available{sequence=orders}":                 995,
		"kennel_sequence_lost_total{sequence=orders}":                7,
		"kennel_storage_requests_total{operation=get,service=blob}":  15,
		"kennel_storage_requests_total{operation=put,service=queue}": 1,
		"kennel_bus_operations_total{operation=deliver}":             8,
		"kennel_operations_total{kennel_job=gates}":                  3,
		"kennel_operations_total{kennel_job=numbers}":                12,
		"kennel_operations_total{kennel_job=other}":                  1,
		"kennel_operations_total{kennel_job=signals}":                8,
		"kennel_bill_month{currency=USD,kennel_job=batches}":         1,
		"kennel_bill_month{currency=USD,kennel_job=host}":            0.5,
		"kennel_bill_month_operations{kennel_job=batches}":           3000,
		"kennel_bill_month_operations{kennel_job=host}":              2000,
		"kennel_bill_today{currency=USD}":                            0.25,
		"kennel_problems{code=of_a_newer_build}":                     1,
	}
	for _, outcome := range []string{"done", "repeated", "retried", "returned", "dead_letter", "lost"} {
		want["kennel_queue_messages_total{outcome="+outcome+",queue=work-1}"] = 0
	}
	for _, code := range instances.Codes() {
		want["kennel_problems{code="+code+"}"] = 0
	}
	want["kennel_problems{code=dead_letters}"] = 2
	if diff := cmp.Diff(want, values(blocks)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	buckets := ""
	for _, s := range blocks["kennel_message_age_seconds"].samples {
		if s.suffix == "_bucket" {
			buckets += fmt.Sprintf("%s:%v ", s.labels[1].value, s.value)
		}
	}
	if want := "0.1:7 1:8 5:8 15:8 60:8 300:8 900:8 3600:8 21600:8 +Inf:10 "; buckets != want {
		t.Errorf("buckets %s, want %s", buckets, want)
	}
}

// TestApp: the series of several processes differ by their labels. Depths are of
// the app, and receives of workers only.
func TestApp(t *testing.T) {
	s := full()
	s.ByProcess = true
	got := values(parsed(t, s))
	key := func(process, name string, labels ...string) string {
		kind, instance, _ := strings.Cut(process, " ")
		labels = append(labels, "kind="+kind, "process="+instance)
		slices.Sort(labels)
		return name + "{" + strings.Join(labels, ",") + "}"
	}
	const app, worker = "functions vm1-4711-k3x7qa", "worker vm2-812-m5w2cd"
	for _, process := range []string{app, worker} {
		for at, want := range map[string]float64{
			key(process, "kennel_info", "version=v0.1.0"):                                   1,
			key(process, "kennel_invocations_total"):                                        100,
			key(process, "kennel_problems", "code=dead_letters"):                            2,
			key(process, "kennel_queue_messages_total", "queue=work-0", "outcome=done"):     9,
			key(process, "kennel_message_age_seconds_count", "queue=work-0"):                10,
			key(process, "kennel_storage_requests_total", "service=queue", "operation=put"): 1,
		} {
			if got[at] != want {
				t.Errorf("%s is %v, want %v", at, got[at], want)
			}
		}
	}
	if _, ok := got[key(app, "kennel_queue_receives_total", "queue=work-0")]; ok || got[key(worker, "kennel_queue_receives_total", "queue=work-0")] != 500 {
		t.Error("receives of a Functions app, or none of a worker")
	}
	if got["kennel_queue_depth{kind=ready,queue=work-0}"] != 10 {
		t.Error("no depth without labels of a process")
	}
}

// TestNamesAreBounded: of the names that callers choose, those in use most have
// series.
func TestNamesAreBounded(t *testing.T) {
	var r instances.Report
	for i := range 2 * maxNames {
		instances.SequenceSection.Add(&r, []instances.Sequence{{Name: fmt.Sprint("s", i), Issued: int64(i % maxNames)}})
		instances.GateSection.Add(&r, []instances.Gate{{Name: fmt.Sprint("g", i), Waiters: 2*maxNames - i}})
	}
	instances.SequenceSection.Of(r)[0].Issued = 1000
	blocks := parsed(t, Set{Reports: []instances.Report{r}})
	for _, name := range []string{"kennel_sequence_numbers_total", "kennel_sequence_available", "kennel_sequence_lost_total", "kennel_gate_waiters"} {
		if n := len(blocks[name].samples); n != maxNames {
			t.Errorf("%s has %d series, want %d", name, n, maxNames)
		}
	}
	if got := values(blocks); got["kennel_sequence_numbers_total{sequence=s0}"] != 1000 || got["kennel_gate_waiters{gate=g0}"] != 2*maxNames {
		t.Error("the sequence and the gate in use most have no series")
	}
}

// TestNothingKnown: a scrape before any process has reported is empty, and that
// of a process without work is not.
func TestNothingKnown(t *testing.T) {
	if got := parsed(t, Set{ByProcess: true}); len(got) != 0 {
		t.Errorf("%v, want nothing", got)
	}
	got := parsed(t, Set{Reports: []instances.Report{{}}, Runtime: true})
	if got["go_goroutines"].name == "" || got["kennel_problems"].name == "" || got["kennel_queue_depth"].name != "" {
		t.Errorf("%v, want problems and the runtime, and no depth", got)
	}
}

// TestNamesAreUsual: names end as the conventions of Prometheus want them.
func TestNamesAreUsual(t *testing.T) {
	for _, f := range families {
		if !regexp.MustCompile("^(kennel|messaging)_[a-z]+(_[a-z]+)*$").MatchString(f.name) || strings.HasSuffix(f.name, "_total") != (f.kind == counter) ||
			f.kind == hist && !strings.HasSuffix(f.name, "_seconds") || regexp.MustCompile("_(count|sum|bucket|gauge|counter|ms|milliseconds|kilobytes)(_|$)").MatchString(f.name) ||
			!strings.HasSuffix(f.help, ".") {
			t.Errorf("%s, a %s: %q", f.name, f.kind, f.help)
		}
		for _, l := range f.labels {
			if !regexp.MustCompile("^[a-z]+(_[a-z]+)*$").MatchString(l) || l == "le" || l == "quantile" || l == "job" || l == "instance" {
				t.Errorf("%s has a label %s", f.name, l)
			}
		}
	}
}

// TestFamiliesAreDocumented compares the table in docs/operations.md with the
// families.
func TestFamiliesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, f := range families {
		labels := ""
		if len(f.labels) > 0 {
			labels = "{" + strings.Join(f.labels, ",") + "}"
		}
		want = append(want, fmt.Sprintf("%s%s %s", f.name, labels, f.kind))
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:kennel|messaging)_[a-z_]+(?:{[a-z_,]+})?)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(text), -1) {
		got = append(got, row[1]+" "+row[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("families (-), documented in docs/operations.md (+):\n%s", diff)
	}
}
