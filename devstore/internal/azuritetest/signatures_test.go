package azuritetest

import (
	"net/url"
	"strings"

	"kennel/devstore"
)

// sharedAccess has the call signed by a shared access signature: for the account
// or for what the call is about. Some have ended, lack the permission, are for
// something else or are wrong.
func (w *world) sharedAccess(c *call) {
	q := make(url.Values)
	q.Set("sv", w.one("2024-11-04", "2024-11-04", "2020-12-06", "2020-02-10", "2018-11-09"))
	q.Set("se", future3339)
	fault := w.one("", "", "", "", "", "", "permission", "permission", "permission", "ended", "not begun", "no end", "resource", "resource", "text", "ended", "no end", "protocol", "address")
	switch fault {
	case "ended":
		q.Set("se", past3339)
	case "not begun":
		q.Set("st", future3339)
	case "no end":
		q.Del("se")
	case "protocol":
		q.Set("spr", "https")
	case "address":
		q.Set("sip", w.one("192.0.2.1", "192.0.2.0-192.0.2.9"))
	default:
		if w.odds(3) {
			q.Set("st", past3339)
		}
		if w.odds(4) {
			q.Set("spr", "https,http")
		}
		if w.odds(4) {
			q.Set("sip", w.one("127.0.0.1", "127.0.0.0-127.0.0.9"))
		}
	}
	if w.odds(2) {
		c.with = "(account signature"
		w.accountSignature(c, q, fault)
	} else {
		c.with = "(signature"
		w.serviceSignature(c, q, fault)
	}
	if fault == "text" {
		c.toSign += "\n"
	}
	c.with = strings.TrimSuffix(c.with+": "+fault, ": ") + ")"
	c.query = strings.TrimPrefix(c.query+"&"+q.Encode(), "&")
}

const (
	past3339   = "2020-01-01T00:00:00Z"
	future3339 = "2125-01-01T00:00:00Z"
)

// some returns some of the letters.
func (w *world) some(all string) string {
	var some strings.Builder
	for _, letter := range all {
		if w.odds(3) {
			some.WriteRune(letter)
		}
	}
	if some.Len() == 0 {
		return all[w.IntN(len(all)):][:1]
	}
	return some.String()
}

func lines(q url.Values, names string) string {
	var all []string
	for name := range strings.SplitSeq(names, " ") {
		all = append(all, q.Get(name))
	}
	return strings.Join(all, "\n")
}

func (w *world) accountSignature(c *call, q url.Values, fault string) {
	q.Set("sp", "rwdlacup")
	q.Set("ss", "bqt")
	q.Set("srt", "sco")
	switch fault {
	case "permission":
		q.Set("sp", w.some(q.Get("sp")))
	case "resource":
		name := w.one("ss", "srt")
		q.Set(name, w.some(q.Get(name)))
	}
	c.toSign = devstore.DefaultAccount + "\n" + lines(q, "sp ss srt st se sip spr sv") + "\n"
	if q.Get("sv") >= "2020-12-06" {
		c.toSign += "\n" // the encryption scope
	}
}

func (w *world) serviceSignature(c *call, q url.Values, fault string) {
	all := map[string]string{"blob": "racwdl", "queue": "raup", "table": "raud"}[c.service]
	if w.odds(6) {
		q.Set("si", w.one("id0", "id1", "none"))
		if !w.odds(4) {
			q.Del("st")
			q.Del("se")
			all = ""
		}
	}
	if all != "" && fault == "permission" {
		all = w.some(all)
	}
	if all != "" {
		q.Set("sp", all)
	}
	front := lines(q, "sp st se") + "\n/" + c.service + "/" + devstore.DefaultAccount + "/"
	back := "\n" + lines(q, "si sip spr sv")
	path := strings.TrimPrefix(c.path, "/")
	switch c.service {
	case "blob":
		w.blobSignature(c, q, fault, front, back)
	case "queue":
		queue, _, _ := strings.Cut(path, "/")
		if fault == "resource" {
			queue = w.queue(w.IntN(2))
		}
		c.toSign = front + queue + back
	case "table":
		table, _, _ := strings.Cut(strings.TrimPrefix(path, "Tables"), "(")
		if len(c.rows) > 0 {
			table, _, _ = strings.Cut(c.rows[0], " ")
		}
		if fault == "resource" || table == "" || table == "$batch" {
			table = w.table(w.IntN(2))
		}
		q.Set("tn", w.one(table, table, strings.ToLower(table)))
		if w.odds(4) {
			q.Set("spk", w.one("p", "p", "q"))
			q.Set("epk", w.one("p", "q", "q"))
			if w.odds(2) {
				q.Set("srk", w.one("1", "2"))
				q.Set("erk", w.one("2", "3"))
			}
			c.with += " of a part"
		}
		c.toSign = front + strings.ToLower(table) + back + "\n" + lines(q, "spk srk epk erk")
	}
	if q.Has("si") {
		c.with += " by a policy"
	}
}

func (w *world) blobSignature(c *call, q url.Values, fault, front, back string) {
	path, _ := url.PathUnescape(strings.TrimPrefix(c.path, "/"))
	box, _, isBlob := strings.Cut(path, "/")
	if box == "" {
		box = w.container(0)
	}
	q.Set("sr", "c")
	var snapshot string
	if isBlob && !w.odds(3) {
		q.Set("sr", "b")
		if _, after, found := strings.Cut(c.query, "snapshot="); found && w.odds(2) {
			q.Set("sr", "bs")
			snapshot, _, _ = strings.Cut(after, "&")
		} else if found {
			c.with += " of a base"
		}
	}
	if fault == "resource" {
		box, path = w.container(w.IntN(2)), w.container(w.IntN(2))+"/"+w.one("a", "b")
	}
	if q.Get("sr") == "c" {
		path = box
	}
	if w.odds(6) {
		q.Set("rsct", w.one("text/plain", "a/b"))
		q.Set("rscc", "no-store")
	}
	if w.odds(10) {
		q.Set("rscd", "attachment")
		q.Set("rsce", "identity")
		q.Set("rscl", "fr")
	}
	c.toSign = front + path + back + "\n" + q.Get("sr") + "\n" + snapshot + "\n"
	if q.Get("sv") >= "2020-12-06" {
		c.toSign += "\n" // the encryption scope
	}
	c.toSign += lines(q, "rscc rscd rsce rscl rsct")
}
