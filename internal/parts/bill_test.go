package parts

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/config"
	"kennel/internal/cost"
	"kennel/internal/cost/bill"
	"kennel/internal/memory"
	"kennel/internal/observe"
)

// TestBillIsRead: the ledger is read at most once a minute. While storage does
// not respond, the last bill is the answer, or none, after two seconds.
func TestBillIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		rows := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Lost: silent.Load()} }}})
		var log bytes.Buffer
		counted := int64(10_000)
		counts := func() bill.Counts {
			return bill.Counts{Operations: map[bill.Operation]int64{{Service: "queue", Name: "put", Job: "batches"}: counted}}
		}
		ledger := bill.NewLedger(rows, bill.Process{Name: "vm-1"}, counts, slog.New(slog.DiscardHandler))
		b := &observe.Billing{Ledger: ledger, Prices: cost.ListPrices(), Host: hostOf(config.Config{Partitions: 4}), Log: slog.New(slog.NewTextHandler(&log, nil))}
		silent.Store(true)
		began := time.Now()
		if got := b.Present(t.Context()); got != nil || time.Since(began) != observe.ProbeTimeout || !strings.Contains(log.String(), "cannot read the bill") {
			t.Errorf("%+v after %v, want none after %v; log: %s", got, time.Since(began), observe.ProbeTimeout, &log)
		}
		silent.Store(false)
		for range 30 {
			if got := b.Present(t.Context()); got == nil || got.Today != "0.004000" {
				t.Fatalf("%+v, want 0.004", got)
			}
			time.Sleep(time.Second)
		}
		if n := rows.CallsOf("Query"); n != 2 {
			t.Errorf("%d reads of the ledger, want one, and one without an answer", n)
		}
		counted = 20_000
		time.Sleep(observe.OfBill.Lasts)
		silent.Store(true)
		if got := b.Present(t.Context()); got == nil || got.Today != "0.004000" {
			t.Errorf("%+v without an answer, want the last one", got)
		}
		silent.Store(false)
		if got := b.Present(t.Context()); got == nil || got.Today != "0.008000" {
			t.Errorf("%+v, want 0.008", got)
		}
	})
	if got := (*observe.Billing)(nil).Present(t.Context()); got != nil {
		t.Errorf("%+v, want none", got)
	}
}

// TestPricesOfTheSetting: a table by name, from a file or as JSON; an error does
// not repeat the setting.
func TestPricesOfTheSetting(t *testing.T) {
	mine := cost.ListPrices()
	mine.Name, mine.Currency = "mine", "EUR"
	text, err := json.Marshal(mine)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "prices.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"": "list", "list": "list", "paper": "paper", file: "mine", string(text): "mine"} {
		if got, err := readPrices(setting); err != nil || got.Name != want {
			t.Errorf("%.20s: %s, %v, want %s", setting, got.Name, err, want)
		}
	}
	const secret = "AccountKey=c2VjcmV0"
	for setting, want := range map[string]string{
		secret: "neither list nor paper",
		"{}":   "date is missing",
		"{":    "unexpected EOF",
		strings.Replace(string(text), `"blob write"`, `"blob read"`, 1): "repeated",
	} {
		_, err := readPrices(setting)
		if err == nil || !strings.HasPrefix(err.Error(), "invalid setting: KENNEL_PRICES") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%.20s: error %v, want %q", setting, err, want)
		}
	}
}

// TestHostOf: the model of the host has the queues and timers of the functions,
// without those that are switched off.
func TestHostOf(t *testing.T) {
	files, err := filepath.Glob("../../functions/*/function.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	const partitions = 4
	load := func(disabled ...string) config.Config {
		env := map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true", "KENNEL_PARTITIONS": strconv.Itoa(partitions)}
		for _, function := range disabled {
			env["AzureWebJobs."+function+".Disabled"] = "true"
		}
		cfg, err := config.Load(env)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	want := bill.Host{Queues: partitions - 1} // a function for each partition is staged from one
	all := hostOf(load())
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		queues, timers := bytes.Count(text, []byte(`"queueTrigger"`)), bytes.Count(text, []byte(`"timerTrigger"`))
		eachMinute := bytes.Count(text, []byte(` * * * * *"`))
		want.Queues, want.Timers, want.EachMinute = want.Queues+queues, want.Timers+timers, want.EachMinute+eachMinute
		function := filepath.Base(filepath.Dir(file))
		without := bill.Host{Queues: all.Queues - queues, Timers: all.Timers - timers, EachMinute: all.EachMinute - eachMinute}
		if got := hostOf(load(function)); got != without {
			t.Errorf("without %s: %+v, want %+v", function, got, without)
		}
	}
	if all != want {
		t.Errorf("%+v, want %+v", all, want)
	}
	if got := hostOf(load("ProcessWork3")); got.Queues != want.Queues-1 {
		t.Errorf("without the last partition: %+v", got)
	}
}
