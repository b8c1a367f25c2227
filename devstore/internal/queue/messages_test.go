package queue

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

func texts(messages []got) string {
	var list []string
	for _, m := range messages {
		list = append(list, m.MessageText)
	}
	return strings.Join(list, " ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}

func TestMessageLife(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	start := c.now
	put := c.put("a", "")
	want(t, "InsertionTime", put.InsertionTime, date(start))
	want(t, "ExpirationTime", put.ExpirationTime, date(start.Add(7*24*time.Hour)))
	want(t, "TimeNextVisible", put.TimeNextVisible, date(start))
	c.put("b", "messagettl=-1")

	c.wait(time.Second)
	if got := c.peek("numofmessages=32"); texts(got) != "a b" || got[0].DequeueCount != 0 || got[0].PopReceipt != "" {
		t.Errorf("peek = %+v", got)
	}
	first := c.receive("")
	if texts(first) != "a" || first[0].DequeueCount != 1 || first[0].PopReceipt == put.PopReceipt {
		t.Fatalf("receive = %+v", first)
	}
	want(t, "TimeNextVisible", first[0].TimeNextVisible, date(c.now.Add(30*time.Second)))
	second := c.receive("numofmessages=32&visibilitytimeout=100")
	if texts(second) != "b" {
		t.Fatalf("second receive = %+v", second)
	}
	want(t, "ExpirationTime of a message that never expires", second[0].ExpirationTime, "Fri, 31 Dec 9999 23:59:59 GMT")
	c.wantCount("2")
	if got := c.receive("numofmessages=32"); len(got) != 0 {
		t.Errorf("received hidden messages %+v", got)
	}

	// One tick before its time a message is still hidden.
	c.wait(30*time.Second - 100)
	if got := c.peek(""); len(got) != 0 {
		t.Errorf("peeked at hidden messages %+v", got)
	}
	c.wait(100)
	again := c.receive("")
	if texts(again) != "a" || again[0].DequeueCount != 2 || again[0].PopReceipt == first[0].PopReceipt || again[0].MessageID != put.MessageID {
		t.Fatalf("received again: %+v", again)
	}
	c.refused(404, "MessageNotFound", "DELETE", first[0].path(c.name), "")
	c.ok(204, "DELETE", again[0].path(c.name), "")
	c.refused(404, "MessageNotFound", "DELETE", again[0].path(c.name), "")
	c.wantCount("1")
	c.ok(204, "DELETE", "jobs/messages", "")
	c.wantCount("0")
}

func TestLapsedReceiptIsGoodUntilTheNextReceive(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	c.put("a", "")
	m := c.receive("visibilitytimeout=1")[0]
	c.wait(time.Minute)
	if got := c.peek(""); texts(got) != "a" {
		t.Fatalf("peek = %+v", got)
	}
	m = c.update(m, "visibilitytimeout=5", "")
	if got := c.peek(""); len(got) != 0 {
		t.Errorf("an update with a timeout left the message visible: %+v", got)
	}
	c.ok(204, "DELETE", m.path(c.name), "")
}

func TestReceiptOfPutCanDelete(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	m := c.put("a", "")
	c.ok(204, "DELETE", m.path(c.name), "")
	c.wantCount("0")
}

func TestUpdate(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	c.put("old", "messagettl=100")
	m := c.receive("visibilitytimeout=10")[0]
	c.wait(time.Second)
	updated := c.update(m, "visibilitytimeout=20", body("new"))
	want(t, "TimeNextVisible", updated.TimeNextVisible, date(c.now.Add(20*time.Second)))
	if updated.PopReceipt == m.PopReceipt {
		t.Error("an update kept the receipt")
	}
	c.refused(404, "MessageNotFound", "PUT", m.path(c.name)+"&visibilitytimeout=0", "")
	c.wait(15 * time.Second)
	if got := c.peek(""); len(got) != 0 {
		t.Errorf("the first timeout ended the second: %+v", got)
	}
	kept := c.update(updated, "visibilitytimeout=0", "")
	got := c.receive("")
	if texts(got) != "new" || got[0].DequeueCount != 2 {
		t.Errorf("after an update without a body: %+v", got)
	}
	c.refused(404, "MessageNotFound", "DELETE", kept.path(c.name), "")

	// It would be visible after it has expired.
	c.refused(400, "InvalidQueryParameterValue", "PUT", got[0].path(c.name)+"&visibilitytimeout=100", "")
	c.refused(400, "MissingRequiredQueryParameter", "PUT", got[0].path(c.name), "")
	c.refused(400, "MissingRequiredQueryParameter", "PUT", "jobs/messages/"+got[0].MessageID+"?visibilitytimeout=1", "")
	c.refused(400, "OutOfRangeQueryParameterValue", "PUT", got[0].path(c.name)+"&visibilitytimeout=604801", "")
	c.refused(400, "InvalidXmlDocument", "PUT", got[0].path(c.name)+"&visibilitytimeout=1", "<QueueMessage/>")
	c.ok(204, "PUT", got[0].path(c.name)+"&visibilitytimeout=84", body(""))
}

func TestMessagesExpireAlsoWhileHidden(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	c.put("shown", "messagettl=10")
	c.put("hidden", "messagettl=10&visibilitytimeout=9")
	c.put("stays", "messagettl=11")
	m := c.receive("visibilitytimeout=3600")[0]
	want(t, "first", m.MessageText, "shown")
	c.wait(10*time.Second - 100)
	c.wantCount("3")
	c.wait(100)
	c.wantCount("1")
	c.refused(404, "MessageNotFound", "DELETE", m.path(c.name), "")
	want(t, "left", texts(messages(t, c.ok(200, "GET", "jobs/messages/?numofmessages=32", ""))), "stays")
	c.wait(time.Second)
	c.wantCount("0")
}

func TestPutRefuses(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	const target = "jobs/messages?"
	for query, code := range map[string]string{
		"visibilitytimeout=-1":                    "OutOfRangeQueryParameterValue",
		"visibilitytimeout=604801&messagettl=-1":  "OutOfRangeQueryParameterValue",
		"visibilitytimeout=604800":                "InvalidQueryParameterValue", // it expires then
		"visibilitytimeout=30&messagettl=30":      "InvalidQueryParameterValue",
		"visibilitytimeout=x":                     "InvalidQueryParameterValue",
		"messagettl=0":                            "OutOfRangeQueryParameterValue",
		"messagettl=-2":                           "OutOfRangeQueryParameterValue",
		"messagettl=1e3":                          "InvalidQueryParameterValue",
		"messagettl=99999999999999999999":         "OutOfRangeQueryParameterValue",
		"messagettl=5&visibilitytimeout=1.5":      "InvalidQueryParameterValue",
		"messagettl=1000&visibilitytimeout=70000": "InvalidQueryParameterValue",
	} {
		c.refused(400, code, "POST", target+query, body("a"))
	}
	e := c.refused(400, "InvalidQueryParameterValue", "POST", target+"visibilitytimeout=30&messagettl=30", body("a"))
	if want := []string{"QueryParameterName", "visibilitytimeout", "QueryParameterValue", "30", "Reason", "messagettl must be greater than visibilitytimeout"}; !slices.Equal(e.Details, want) {
		t.Errorf("details = %q, want %q", e.Details, want)
	}
	for _, text := range []string{"", "text", "<QueueMessage>", "<Message><MessageText>a</MessageText></Message>", "<QueueMessage/>",
		"<QueueMessage><MessageText><b/></MessageText></QueueMessage>",
		"<QueueMessage><MessageText>a</MessageText><Other/></QueueMessage>",
		"<QueueMessage><MessageText>\x00</MessageText></QueueMessage>",
		"<QueueMessage><MessageText>\x1f</MessageText></QueueMessage>",
		"<QueueMessage><MessageText>&#x1;</MessageText></QueueMessage>",
		"<QueueMessage><MessageText>\xff</MessageText></QueueMessage>",
		"<QueueMessage><MessageText>&nothing;</MessageText></QueueMessage>",
		body("a") + body("a"),
	} {
		c.refused(400, "InvalidXmlDocument", "POST", target, text)
	}
	c.refused(413, "RequestBodyTooLarge", "POST", target, body(strings.Repeat("a", maxText+1)))
	c.refused(413, "RequestBodyTooLarge", "POST", target, body(strings.Repeat("é", maxText/2)+"a"))
	c.wantCount("0")
	if len(*c.log) != 1 {
		t.Errorf("the log holds %d records, want that of the queue only", len(*c.log))
	}
	c.put("visible later", "visibilitytimeout=604799")
	c.put("for ever", "messagettl=9007199254740991")
	want(t, "expiry", c.receive("numofmessages=32")[0].ExpirationTime, "Fri, 31 Dec 9999 23:59:59 GMT")
}

func TestTextIsKept(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	for _, text := range []string{"", " ", "  a\t b\n\n", "a\r\nb\rc", "<&>\"'", "]]>", "é漢😀\u00a0\u2028", "eyJhIjoxfQ==", "\ufeffbom",
		strings.Repeat("&", maxText), strings.Repeat("\r", maxText)} {
		c.put(text, "")
		got := c.receive("")
		if len(got) != 1 || got[0].MessageText != text {
			t.Errorf("%.20q became %.40q", text, texts(got))
		}
	}
	// XML reads each line end as a line feed, and CDATA as text.
	for written, read := range map[string]string{"a\r\nb\rc": "a\nb\nc", "<![CDATA[<a>&amp;]]>": "<a>&amp;", "&#xd;&#65;": "\rA", "a<!-- no text -->b": "ab"} {
		c.ok(201, "POST", "jobs/messages", "\ufeff<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<QueueMessage>\n <MessageText>"+written+"</MessageText>\n</QueueMessage>\n")
		if got := c.receive(""); texts(got) != read {
			t.Errorf("%q became %q, want %q", written, texts(got), read)
		}
	}
}

func TestReceiveRefuses(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	for query, code := range map[string]string{
		"numofmessages=0": "OutOfRangeQueryParameterValue", "numofmessages=33": "OutOfRangeQueryParameterValue", "numofmessages=many": "InvalidQueryParameterValue",
	} {
		c.refused(400, code, "GET", "jobs/messages?"+query, "")
		c.refused(400, code, "GET", "jobs/messages?peekonly=true&"+query, "")
	}
	for query, code := range map[string]string{"visibilitytimeout=0": "OutOfRangeQueryParameterValue", "visibilitytimeout=604801": "OutOfRangeQueryParameterValue"} {
		c.refused(400, code, "GET", "jobs/messages?"+query, "")
	}
}

func TestReceiptsThatWereNeverGiven(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	a, b := c.put("a", ""), c.put("b", "")
	c.refused(400, "InvalidQueryParameterValue", "DELETE", "jobs/messages/"+a.MessageID+"?popreceipt=invalid", "")
	c.refused(400, "MissingRequiredQueryParameter", "DELETE", "jobs/messages/"+a.MessageID, "")
	c.refused(404, "MessageNotFound", "DELETE", "jobs/messages/"+a.MessageID+"?popreceipt=AAAA", "")
	b.MessageID = a.MessageID
	c.refused(404, "MessageNotFound", "DELETE", b.path("jobs"), "")
	for _, id := range []string{"1", "00000000-0000-0000-0000-000000000000", strings.Repeat("z", 36), strings.Repeat("-", 36)} {
		b.MessageID = id
		c.refused(404, "MessageNotFound", "DELETE", b.path("jobs"), "")
	}
	c.refused(404, "QueueNotFound", "DELETE", a.path("other"), "")
	c.refused(404, "MessageNotFound", "DELETE", "jobs/messages/?popreceipt=AAAA", "")
	c.wantCount("2")
	a.MessageID = strings.ToUpper(a.MessageID)
	c.ok(204, "DELETE", a.path("jobs"), "")
}

func TestOrderIsThatOfArrival(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	for i := range 40 {
		c.put(fmt.Sprint(i), "")
	}
	first := c.receive("numofmessages=2&visibilitytimeout=5")
	c.wait(5 * time.Second)
	want(t, "order", texts(c.receive("numofmessages=4")), "0 1 2 3")
	if first[0].PopReceipt == first[1].PopReceipt {
		t.Error("two messages of one receive share a receipt")
	}
}

func TestSeedShufflesWithinAWindow(t *testing.T) {
	order := func(seed uint64) []string {
		c := newClient(t, seed)
		c.create()
		for i := range 1000 {
			c.put(fmt.Sprint(i), "")
		}
		var order []string
		for messages := c.receive("numofmessages=32"); len(messages) > 0; messages = c.receive("numofmessages=32") {
			order = append(order, strings.Fields(texts(messages))...)
		}
		return order
	}
	one := order(1)
	if !slices.Equal(one, order(1)) {
		t.Error("one seed gave two orders")
	}
	if slices.Equal(one, order(2)) || slices.Equal(one, order(0)) {
		t.Error("two seeds gave one order")
	}
	for i, text := range one {
		var n int
		fmt.Sscan(text, &n)
		if n-i >= window || i-n >= window {
			t.Errorf("message %d came at place %d", n, i)
		}
	}
	if len(one) != 1000 {
		t.Errorf("received %d messages, want 1000", len(one))
	}
}

func TestDeepQueueLeavesNothingBehind(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	for range 5000 {
		c.put("a", "messagettl=1")
	}
	c.wait(time.Second)
	c.wantCount("0")
	q := c.s.accounts["dev"].queues["jobs"]
	for name, h := range map[string]*heap{"waiting": &q.waiting, "hidden": &q.hidden, "expiring": &q.expiring} {
		if cap(h.items) > 2048 {
			t.Errorf("the empty heap %s has room for %d messages", name, cap(h.items))
		}
	}
	if q.peak != 0 {
		t.Error("the map of messages was kept")
	}
}

// Each message is received by one of many callers.
func TestCallersAtOnce(t *testing.T) {
	c := newClient(t, 0)
	c.s.log = rest.Memory{}
	c.create()
	const callers, each = 8, 100
	received := make([][]string, callers)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			c := *c
			for j := range each {
				c.put(fmt.Sprint(i*each+j), "")
				for _, m := range c.receive("numofmessages=2") {
					received[i] = append(received[i], m.MessageText)
					c.ok(204, "DELETE", m.path("jobs"), "")
				}
			}
		})
	}
	group.Wait()
	all := slices.Concat(received...)
	all = append(all, strings.Fields(texts(c.receive("numofmessages=32")))...)
	slices.Sort(all)
	if len(all) != callers*each || len(slices.Compact(all)) != callers*each {
		t.Errorf("received %d messages, want each of %d once", len(all), callers*each)
	}
}

// TestReceiptsDoNotRepeat goes on from a snapshot with a clock that stands still.
func TestReceiptsDoNotRepeat(t *testing.T) {
	c := newClient(t, 0)
	c.create()
	first := c.put("a", "")
	c.ok(204, "DELETE", first.path(c.name), "")
	if again := c.copied().put("b", ""); again.PopReceipt == first.PopReceipt || again.MessageID == first.MessageID {
		t.Errorf("the next message is %+v, as the one before was", again)
	}
}
