package azuritetest

import (
	"fmt"
	"strings"
)

func (w *world) queueCall() call {
	queue := w.queue(w.usual())
	c := call{service: "queue", path: "/" + queue, header: make(map[string]string)}
	messages := "/" + queue + "/messages"
	switch n := w.IntN(100); {
	case n < 5:
		c.name, c.method = "Create Queue", "PUT"
		w.metadata(c.header)
	case n < 8:
		c.name, c.method = "Delete Queue", "DELETE"
	case n < 14:
		c.name, c.method, c.query = "Get Queue Metadata", w.one("GET", "HEAD"), "comp=metadata"
	case n < 18:
		c.name, c.method, c.query = "Set Queue Metadata", "PUT", "comp=metadata"
		w.metadata(c.header)
	case n < 21:
		c.name, c.method, c.query = "Get Queue ACL", "GET", "comp=acl"
	case n < 24:
		c.name, c.method, c.query, c.body = "Set Queue ACL", "PUT", "comp=acl", w.policies()
	case n < 28:
		c.name, c.method, c.path = "List Queues", "GET", "/"
		c.query = "comp=list&prefix=" + w.name + "-" + w.one("", "l", "line1", "none") + w.one("", "&include=metadata", "&include=odd") + w.listLimits("")
	case n < 48:
		c.name, c.method, c.path, c.body = "Put Message", "POST", messages, w.message()
		c.query = w.parameters("visibilitytimeout", "0", "0", "100", "604800", "604801") + w.parameters("messagettl", "1000", "-1", "604801", "200")
	case n < 62:
		c.name, c.method, c.path = "Get Messages", "GET", messages
		c.query = w.parameters("numofmessages", "1", "2", "32", "33") + w.parameters("visibilitytimeout", "100", "30", "1", "604800", "604801")
		if strings.Contains(c.query, "visibilitytimeout=1&") {
			c.query = "" // would end within the test
		}
	case n < 70:
		c.name, c.method, c.path = "Peek Messages", "GET", messages
		c.query = "peekonly=" + w.one("true", "true", "true", "false&visibilitytimeout=100") + "&" + w.parameters("numofmessages", "1", "2", "32", "33")
	case n < 82:
		c.name, c.method, c.path, c.body = "Update Message", "PUT", w.messagePath(messages, queue), w.message()
		if w.odds(4) {
			c.body = ""
		}
		c.query = "popreceipt=" + w.receipt(queue) + "&" + w.parameters("visibilitytimeout", "0", "100", "604800", "604801")
	case n < 95:
		c.name, c.method, c.path = "Delete Message", "DELETE", w.messagePath(messages, queue)
		c.query = "popreceipt=" + w.receipt(queue)
	case n < 98:
		c.name, c.method, c.path = "Clear Messages", "DELETE", messages
	default:
		return w.oddQueueCall()
	}
	c.query = strings.TrimSuffix(c.query, "&")
	return c
}

func (w *world) parameters(name string, right ...string) string {
	if w.odds(2) {
		return ""
	}
	return name + "=" + w.number(right...) + "&"
}

func (w *world) message() string {
	if w.odds(30) {
		return w.one("", "<QueueMessage>", "<Other/>", "<QueueMessage></QueueMessage>", "<QueueMessage><MessageText>"+strings.Repeat("x", 65537)+"</MessageText></QueueMessage>")
	}
	return fmt.Sprintf("<QueueMessage><MessageText>%s</MessageText></QueueMessage>", w.one("a", "two words", "&lt;x&gt;&amp;", "ü", "", " padded ", "line\nline"))
}

func (w *world) messagePath(messages, queue string) string {
	if token := w.token("message", queue); token != "" && !w.odds(10) {
		return messages + "/" + token
	}
	return messages + "/" + guid(7)
}

func (w *world) receipt(queue string) string {
	if token := w.token("receipt", queue); token != "" && !w.odds(8) {
		return token
	}
	return w.one("AgAAAAMAAAAAAAAAAAAAAAAAAAA%3D", "odd", "")
}

func (w *world) oddQueueCall() call {
	queue := w.queue(0)
	all := []call{
		{method: "GET", path: "/" + queue, query: "comp=odd"},
		{method: "GET", path: "/" + queue},
		{method: "POST", path: "/" + queue},
		{method: "PUT", path: "/ab"},
		{method: "PUT", path: "/a--b"},
		{method: "PUT", path: "/UPPER"},
		{method: "PUT", path: "/" + queue + "/messages"},
		{method: "GET", path: "/" + queue + "/messages/" + guid(1)},
		{method: "GET", path: "/", query: "comp=odd"},
		{method: "GET", path: "/"},
	}
	c := all[w.IntN(len(all))]
	c.name, c.service = "(odd) "+c.method+" "+strings.ReplaceAll(c.path, w.name, "w")+"?"+c.query, "queue"
	return c
}
