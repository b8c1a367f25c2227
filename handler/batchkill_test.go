package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/api"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/names"
	"kennel/internal/parts"
	"kennel/internal/storetest"
	"kennel/queue"
	"kennel/work"
)

// TestBatchKilled submits 20,000 transactions to the real app, which is killed
// with SIGKILL during the submission, and kills the real worker again and again
// while it processes them beside the app. Each item is counted once: the report
// is what the items add up to.
func TestBatchKilled(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	const count, partitions = 20_000, 4
	connection := storetest.OwnStorage(t).ConnectionString()
	storage := "AzureWebJobsStorage=" + connection
	account := azure.Account{ConnectionString: connection}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	kennel, err := storetest.Build("cmd/kennel")
	if err != nil {
		t.Fatal(err)
	}
	transactions, err := exec.Command(kennel, "sample", "billing", "-n", strconv.Itoa(count)).Output()
	if err != nil {
		t.Fatal(err)
	}

	// The first app is killed while it reads, the others while they store the
	// batch, unless they are faster.
	cut := 0
	for _, at := range []int{len(transactions) / 2, len(transactions), len(transactions), len(transactions)} {
		app := start(t, built.handler, storage)
		body := &tripwire{text: transactions, at: at, trip: func() {
			time.AfterFunc(rand.N(150*time.Millisecond), func() { app.cmd.Process.Kill() })
		}}
		r := submission(t, app.url, body)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			cut++
		} else if answer.Body.Close(); answer.StatusCode != http.StatusAccepted {
			t.Fatalf("submission: %d", answer.StatusCode)
		}
		app.kill()
	}
	app := start(t, built.handler, storage)
	answer, err := http.DefaultClient.Do(submission(t, app.url, bytes.NewReader(transactions)))
	if err != nil {
		t.Fatal(err)
	}
	var b work.Batch
	err = json.NewDecoder(answer.Body).Decode(&b)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusAccepted || b.Items != count {
		t.Fatalf("submission: %d %+v, %v", answer.StatusCode, b, err)
	}
	if cut < 2 {
		t.Errorf("%d submissions were cut, want two or more", cut)
	}

	functions := make(map[string]string)
	names := parts.WorkQueues(partitions)
	for n := range partitions {
		functions[work.PartitionQueue(n)] = "ProcessWork" + strings.TrimPrefix(strconv.Itoa(n), "0")
	}
	began, kills := time.Now(), 0
	var hosted atomic.Int64
	stopHost := beHost(t, app, queues, functions, &hosted)
	read := func() (now work.Batch) {
		app.request(t, "GET", "/api/batches/"+b.ID, "", &now)
		return now
	}
	for ; read().State != work.Done; kills++ {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("after %d kills: %+v", kills, read())
		}
		w := launchWorker(t, storage, "KENNEL_WORKER_LEASE=2s")
		w.ready(t)
		time.Sleep(200*time.Millisecond + rand.N(600*time.Millisecond))
		w.kill()
		sweep := customhandler.Trigger{Function: "BatchSweep", Binding: "tick"}.Timer(customhandler.Tick{})
		if err := app.invoke(t, "BatchSweep", sweep); err != nil {
			t.Error(err)
		}
	}
	took := time.Since(began)

	// Copies of messages may be left.
	launchWorker(t, storage, "KENNEL_WORKER_LEASE=2s").ready(t)
	left := func(suffix string) (all int64) {
		for _, name := range names {
			n, err := queues.Count(t.Context(), name+suffix)
			if err != nil {
				t.Fatal(err)
			}
			all += n
		}
		return all
	}
	for deadline := time.Now().Add(2 * time.Minute); left("") > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages are left", left(""))
		}
	}
	stopHost()
	letters := left(queue.PoisonSuffix)

	now := read()
	var list work.List[work.Batch]
	app.request(t, "GET", "/api/batches", "", &list)
	if now.Done+now.Rejected != count || now.Failed != 0 || len(list.Items) != 1 {
		t.Errorf("%+v of %d batches, want one with %d results", now, len(list.Items), count)
	}
	_, _, report := app.call(t, "GET", "/api/batches/"+b.ID+"/report", nil, "Accept", api.CsvMedia)
	if want := reportOn(t, transactions); report != want {
		t.Errorf("report:\n%s\nwant:\n%s", report, want)
	}
	// What the killed submissions staged is for the sweep, after a day.
	if staged := stagedOf(t, account, b.ID); len(staged) > 0 {
		t.Errorf("staged blobs %q are left", staged)
	}
	if letters > 0 { // interrupted is not failed
		t.Errorf("%d messages are dead letters", letters)
	}
	t.Logf("figure: of 20,000 billed items, results missing or counted twice, and messages left, when the app is killed -9 during the submission and the worker again and again | %d, %d | 0, 0", count-now.Done-now.Rejected, letters)
	t.Logf("%d of 4 submissions cut, %d kills in %v, %d messages by the app beside the worker", cut, kills, took.Round(time.Second), hosted.Load())
}

// submission returns a request that submits transactions, the same each time.
func submission(t *testing.T, app string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", app+"/api/batches?processor=billing", body)
	if err != nil {
		t.Fatal(err)
	}
	r.GetBody = nil // so that net/http repeats nothing
	r.Header.Set("Content-Type", api.NdjsonMedia)
	r.Header.Set("Idempotency-Key", "month")
	return r
}

// tripwire is a body that calls trip when a number of bytes was read.
type tripwire struct {
	text     []byte
	read, at int
	trip     func()
}

func (w *tripwire) Read(p []byte) (int, error) {
	n := copy(p, w.text[w.read:])
	if w.read += n; w.read >= w.at && w.trip != nil {
		w.trip()
		w.trip = nil
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// reportOn returns the report on transactions, computed with fractions.
func reportOn(t *testing.T, transactions []byte) string {
	t.Helper()
	type total struct {
		amount *big.Rat
		items  int
	}
	totals := make(map[[2]string]*total)
	decimals := map[string]int{"EUR": 2, "USD": 2, "GBP": 2, "CHF": 2, "JPY": 0, "KRW": 0, "KWD": 3, "TND": 3}
	number := func(text json.RawMessage) *big.Rat {
		n, ok := new(big.Rat).SetString(strings.Trim(string(text), `"`))
		if !ok {
			t.Fatalf("%s is not a number", text)
		}
		return n
	}
	for line := range bytes.Lines(transactions) {
		var i struct {
			Account, Currency   string
			Quantity, UnitPrice json.RawMessage
		}
		if err := json.Unmarshal(line, &i); err != nil {
			t.Fatal(err)
		}
		unit := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals[i.Currency])), nil))
		amount := number(i.Quantity)
		amount.Mul(amount, number(i.UnitPrice)).Mul(amount, unit)
		key := [2]string{i.Account, i.Currency}
		if totals[key] == nil {
			totals[key] = &total{amount: new(big.Rat)}
		}
		totals[key].amount.Add(totals[key].amount, new(big.Rat).Quo(halfEven(amount), unit))
		totals[key].items++
	}
	var text strings.Builder
	text.WriteString("account,currency,amount,items\n")
	keys := make([][2]string, 0, len(totals))
	for key := range totals {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		fmt.Fprintf(&text, "%s,%s,%s,%d\n", key[0], key[1], totals[key].amount.FloatString(decimals[key[1]]), totals[key].items)
	}
	return text.String()
}

// halfEven returns the whole number that is closest, of two the even one.
func halfEven(n *big.Rat) *big.Rat {
	twice := new(big.Int).Lsh(n.Num(), 1)
	below, rest := new(big.Int).DivMod(twice.Add(twice, n.Denom()), new(big.Int).Lsh(n.Denom(), 1), new(big.Int))
	if rest.Sign() == 0 && below.Bit(0) == 1 {
		below.Sub(below, big.NewInt(1))
	}
	return new(big.Rat).SetInt(below)
}

// stagedOf returns the names of the staged blobs of a batch, or of all for "".
func stagedOf(t *testing.T, account azure.Account, batch string) []string {
	t.Helper()
	blobs, err := account.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	names, err := azure.NewContainer(blobs, names.StagingContainer).List(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, batch) })
}
