package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/internal/azure"
	devrun "kennel/internal/dev/run"
	"kennel/queue"
)

// entities are queues of Service Bus. The last one is not used during the
// outage.
var entities = []string{"orders", "invoices", "eu/returns"}

// answered is how many slow webhooks are answered, so that their batch stays in
// its middle.
const answered = 1840

// startHooks starts a server that answers webhooks.
func startHooks() *httptest.Server {
	var slow atomic.Int64
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var item struct{ Order int }
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, json.Unmarshal(body, &item)); err != nil || item.Order%97 == 50 {
			http.Error(w, "unknown order", http.StatusUnprocessableEntity)
		} else if r.URL.Path == "/slow" && slow.Add(1) > answered {
			<-r.Context().Done() // the app stops waiting
		} else {
			fmt.Fprint(w, "ok")
		}
	}))
}

// seeder calls the API of an app, until the first failure.
type seeder struct {
	ctx context.Context
	app devrun.Event
	err error
}

// seed gives the app data.
func seed(ctx context.Context, app devrun.Event, hooks string) error {
	s := &seeder{ctx: ctx, app: app}
	s.sequences()
	s.gates()
	s.channels()
	s.batches(hooks)
	s.deadLetters()
	s.outage()
	return s.err
}

// call sends a request: text as lines of items, and other bodies as JSON.
func (s *seeder) call(method, address string, body any) {
	if s.err == nil {
		s.err = s.send(method, s.app.URL+"/api/"+address, body)
	}
}

func (s *seeder) send(method, address string, body any) error {
	media := "application/json"
	var content io.Reader
	if text, ok := body.(string); ok {
		media, content = "application/x-ndjson", strings.NewReader(text)
	} else if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(s.ctx, method, address, content)
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", media)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s %w", method, address, answer.Status, text, err)
	}
	return nil
}

func (s *seeder) sequences() {
	for name, first := range map[string]int{"credit-notes": 9031, "eu.returns": 22104, "invoices": 180446, "orders": 4120750, "shipments": 770122} {
		s.call("POST", "sequences/"+name+"/raise", map[string]any{"atLeast": first, "reason": "Taken over from the old system"})
		s.call("POST", "sequences/"+name+"/next?count=720", nil)
	}
}

func (s *seeder) gates() {
	change := func(name, what, by, reason string) {
		s.call("POST", "gates/"+name+"/"+what, map[string]string{"by": by, "reason": reason})
	}
	change("start-orders", "release", "deploy-pipeline", "Prices of Monday are loaded")
	change("nightly-invoices", "release", "ops-rota", "Ledger is closed")
	change("nightly-invoices", "close", "ops-rota", "Tax tables of 2027 are missing")
	change("nightly-invoices", "release", "deploy-pipeline", "Tax tables are loaded")
	change("nightly-invoices", "close", "ops-rota", "Totals of Sunday differ")
	change("import-catalog", "release", "ops-rota", "Catalogue is checked")
	change("import-catalog", "close", "ops-rota", "File of the supplier is late")
}

var blogs = []struct{ title, text string }{
	{"Version 4.12 is out", "Exports are twice as fast, and the log has the reason of each change."},
	{"Export was slow on Monday", "The export of invoices took up to nine minutes, because one partition was full.\nIt was split at 10:40. Nothing was lost."},
	{"A second warehouse", "Orders for the Benelux countries ship from Rotterdam."},
	{"Prices in PLN", "All lists have prices in PLN from the first of December."},
}

func (s *seeder) channels() {
	for name, owner := range map[string]string{"catalog-news": "sales", "incidents": "operations", "price-changes": "sales", "release-notes": "platform", "warehouse": "logistics"} {
		s.call("PUT", "channels/"+name, map[string]string{"owner": owner})
		for i := range 12 {
			b := blogs[i%len(blogs)]
			s.call("POST", "channels/"+name+"/blogs", map[string]string{"title": b.title, "text": b.text, "userId": fmt.Sprintf("editor-%d", i%3+1)})
		}
	}
	s.call("PUT", "channels/archive-2024", map[string]string{"owner": "platform"})
	s.call("DELETE", "channels/archive-2024", nil)
}

func (s *seeder) batches(hooks string) {
	submit := func(name, processor string, items int, item func(i int) any) {
		var lines strings.Builder
		for i := range items {
			text, _ := json.Marshal(item(i)) // of texts and numbers
			lines.Write(append(text, '\n'))
		}
		s.call("POST", "batches?"+url.Values{"processor": {processor}, "name": {name}}.Encode(), lines.String())
	}
	usage := func(i int) any {
		quantity := fmt.Sprint(i%40 + 1)
		if i%53 == 12 {
			quantity = "999999999999999999" // more digits than an amount may have
		}
		return map[string]string{
			"id": fmt.Sprintf("t%05d", i), "account": []string{"acme", "globex", "initech"}[i%3], "sku": []string{"storage-gb", "egress-gb", "seat"}[i%3],
			"quantity": quantity, "unitPrice": "2.75", "currency": []string{"EUR", "USD"}[i%2],
		}
	}
	order := func(path string) func(i int) any {
		return func(i int) any {
			return map[string]any{"id": fmt.Sprintf("order-%d", i), "url": hooks + path, "body": map[string]int{"order": i}}
		}
	}
	submit("October usage", "billing", 4000, usage)
	submit("November usage, first half", "billing", 5200, usage)
	submit("Order confirmations", "webhook", 1200, order("/fast"))
	submit("Shipping notices", "webhook", 3000, order("/slow"))
}

func (s *seeder) deadLetters() {
	if s.err != nil {
		return
	}
	queues, err := azure.Account{ConnectionString: s.app.Connection}.OpenQueues(nil)
	if s.err = err; err != nil {
		return
	}
	// A dry run needs the queue to which they go back.
	if _, s.err = queues.Put(s.ctx, "returns", "", 0); s.err == nil {
		s.err = queues.Clear(s.ctx, "returns")
	}
	if s.err != nil {
		return
	}
	reasons := []string{"the webhook answered 503 Service Unavailable after %d s", "storage answered 403 AuthorizationPermissionMismatch, request 7cbb1f6e-%04d"}
	for i := range 46 {
		reason := fmt.Sprintf(reasons[min(i%5, 1)*(i%2)], i)
		body := fmt.Sprintf(`{"return":%d,"order":%d,"lines":[{"sku":"seat","quantity":2}]}`, 300+i, 4119000+i)
		letter := queue.DeadLetter{Queue: "returns", Message: fmt.Sprint(i), Reason: reason, Attempts: 5, At: time.Now(), Text: body}
		if _, s.err = queues.Put(s.ctx, "returns"+queue.PoisonSuffix, letter.Encode(), 0); s.err != nil {
			return
		}
	}
	letter := queue.DeadLetter{Queue: "delete-channel-and-blogs", Message: "1", Reason: "tables answered 500 InternalError", Attempts: 5, At: time.Now(), Text: `{"channel":"archive-2023"}`}
	_, s.err = queues.Put(s.ctx, letter.Queue+queue.PoisonSuffix, letter.Encode(), 0)
}

// outage sends messages while the primary bus works, and while it does not.
func (s *seeder) outage() {
	messages := func(count int, entities ...string) {
		group := errgroup.Group{}
		for _, entity := range entities {
			for i := range count {
				group.Go(func() error {
					return s.send("POST", s.app.URL+"/api/messages/"+strings.ReplaceAll(entity, "/", "~"), map[string]int{"order": i})
				})
			}
		}
		if err := group.Wait(); s.err == nil {
			s.err = err
		}
	}
	messages(3, entities...)
	for _, kind := range []string{"refuse-dial", "disconnect"} {
		if s.err == nil {
			s.err = s.send("POST", s.app.ServiceBusFaults, map[string]string{"kind": kind})
		}
	}
	messages(40, "orders", "invoices")
}
