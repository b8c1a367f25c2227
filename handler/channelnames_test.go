package main

import (
	"net/url"
	"testing"

	"kennel/internal/storetest"
)

// TestNamesAreKeptApart checks that names which people cannot tell apart, or
// which other programs fold into one, are channels of their own from the
// address to the tables and back: what is done to one is done to no other.
func TestNamesAreKeptApart(t *testing.T) {
	t.Parallel()
	p := shared(t)
	unique := storetest.Name()
	names := []string{
		"news", "News", "news\u200b", "\ufeffnews", "ne\u2060ws", "ne\u00adws", "news\u3164", "news\ufe0f", // look alike
		"\u00e9", "e\u0301", "AB", "\uff21\uff22", // the same in a normal form
		"\u202enews", "news\u2066", "👩\u200d👩\u200d👧", "a+b", "a b", "'", `"`, "''",
	}
	address := func(name string) string { return "/" + url.PathEscape(name) }
	etags := map[string]string{}
	for i, name := range names {
		name = unique + name
		names[i] = name
		created := p.channels(t, "PUT", address(name), `{"owner":"ann"}`)
		created.expect(t, name, 201, "")
		if created.Channel != name {
			t.Errorf("%+q: created %+q", name, created.Channel)
		}
		etags[name] = created.ETag
	}
	for i := 0; i < len(names); i += 2 {
		p.channels(t, "DELETE", address(names[i]), "", "If-Match", etags[names[i]]).expect(t, "delete "+names[i], 202, "")
	}
	for i, name := range names {
		read := p.channels(t, "GET", address(name), "")
		if i%2 == 0 {
			read.expect(t, "deleted "+name, 404, "channel_not_found")
		} else if read.status != 200 || read.Channel != name || read.ETag != etags[name] {
			t.Errorf("%+q after the deletion of others: %d %s", name, read.status, read.body)
		}
	}
}
