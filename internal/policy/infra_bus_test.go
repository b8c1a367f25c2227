package policy

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kennel/internal/azure/servicebus"
	"kennel/internal/dev/bicep"
	"kennel/relay"
)

// busQueues compares the backlog queues with those that the app uses and
// creates, and checks the queues that its users send to.
func (c *infraCheck) busQueues() {
	queues := make(map[string][]string) // by namespace
	for _, r := range c.Of(namespace + "/queues") {
		// Azure Resource Manager writes a slash in a name as ~.
		queues[parentOf(r)] = append(queues[parentOf(r)], strings.ReplaceAll(r.Name, "~", "/"))
		want := map[string]any{
			"lockDuration": "PT1M", "maxSizeInMegabytes": 5120, "deadLetteringOnMessageExpiration": true,
			"requiresDuplicateDetection": true, "duplicateDetectionHistoryTimeWindow": "PT12H",
		}
		if parentOf(r) == c.secondary() {
			want = c.backlog
		}
		c.want("settings of "+r.ID(), r.At("properties"), want)
	}
	if c.most {
		c.want("the region of the second namespace", c.Of(namespace)[len(c.Of(namespace))-1].At("location"), "northeurope")
	}
	primary := c.first(namespace).Name
	c.want("queues of Service Bus", queues, c.either(map[string][]string{}, map[string][]string{
		primary: {"orders", "eu/invoices"}, c.secondary(): relay.BacklogQueues(primary, 3),
	}))
}

// secondary returns the name of the second namespace; "" without one.
func (c *infraCheck) secondary() string {
	if all := c.Of(namespace); len(all) > 1 {
		return all[1].Name
	}
	return ""
}

// backlogQueues returns the queues of the second namespace.
func (c *infraCheck) backlogQueues() []*bicep.Resource {
	return slices.DeleteFunc(c.Of(namespace+"/queues"), func(r *bicep.Resource) bool { return parentOf(r) != c.secondary() })
}

// parentOf returns the name of the parent; "" without one.
func parentOf(r *bicep.Resource) string {
	if r.Parent == nil {
		return ""
	}
	return r.Parent.Name
}

// createdQueue returns the settings that the app gives to a backlog queue, by
// their names in Azure Resource Manager.
func createdQueue(t *testing.T) map[string]any {
	t.Helper()
	var request capture
	bus, err := servicebus.Namespace{ConnectionString: "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=k"}.OpenRelay(&servicebus.Options{Admin: &request})
	if err != nil {
		t.Fatal(err)
	}
	_ = bus.Ensure(t.Context(), "q") // the request gets no answer
	settings := make(map[string]any)
	for _, m := range regexp.MustCompile(`<(\w+)>([^<>]+)</`).FindAllStringSubmatch(request.body, -1) {
		var value any
		if err := json.Unmarshal([]byte(m[2]), &value); err != nil {
			value = m[2]
		} else if n, ok := value.(float64); ok {
			value = int(n)
		}
		settings[strings.ToLower(m[1][:1])+m[1][1:]] = value
	}
	return settings
}

// capture keeps a request that it does not send.
type capture struct{ body string }

func (c *capture) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	c.body = string(body)
	return nil, errors.Join(err, errors.New("not sent"))
}
