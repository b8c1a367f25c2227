package devbus

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/faultapi"
)

// This file controls faults over HTTP, at the address of a local broker:
//
//	POST   /faults       {"kind": "reject", "entity": "orders", "times": 3}
//	GET    /faults       lists the faults
//	DELETE /faults/{id}  heals one
//	DELETE /faults       heals all

// faultBody is a Fault in JSON.
type faultBody struct {
	ID          int      `json:"id"`
	Kind        string   `json:"kind"`
	Entity      string   `json:"entity,omitempty"`
	On          []string `json:"on,omitempty"`
	Times       int      `json:"times,omitempty"`
	Condition   string   `json:"condition,omitempty"`
	Description string   `json:"description,omitempty"`
	Status      int      `json:"status,omitempty"`
	Delay       string   `json:"delay,omitempty"` // such as 1m30s
}

var kinds = map[string]Kind{
	"refuse-dial": RefuseDial, "black-hole": BlackHole, "freeze": Freeze, "drop-heartbeats": DropHeartbeats, "disconnect": Disconnect,
	"close-before": CloseBefore, "close-after": CloseAfter, "silent": Silent, "silent-after": SilentAfter, "slow": Slow,
	"reject": Reject, "full": Full, "release": Release, "modify": Modify, "detach": Detach, "detach-after": DetachAfter, "refuse-attach": RefuseAttach,
	"cbs": CBS, "expire-tokens": ExpireTokens, "admin": Admin, "delete-entity": DeleteEntity, "clock-skew": ClockSkew,
}

var ops = map[string]Op{"send": OnSend, "settle": OnSettle, "request": OnRequest}

// String returns the name of the kind over HTTP.
func (k Kind) String() string {
	for name, of := range kinds {
		if of == k {
			return name
		}
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// isFaultRequest reports whether a request is for the handler of faults, and not
// for the administration of an entity named "faults".
func isFaultRequest(r *http.Request) bool {
	return faultapi.Is(r) && !r.URL.Query().Has("api-version")
}

func (b *Broker) faultHandler() http.Handler {
	return faultapi.Handler(faultapi.Faults{
		Add: func(r *http.Request) (int, error) {
			f, err := readFault(r)
			if err != nil {
				return 0, err
			}
			return b.Fail(f), nil
		},
		List: func() any { return b.listFaults() },
		Heal: b.heal,
		All:  func() { b.Heal() },
	})
}

// heal ends a fault, and reports whether it was there.
func (b *Broker) heal(id int) bool {
	b.mu.Lock()
	known := slices.ContainsFunc(b.faults, func(f *fault) bool { return f.id == id })
	b.mu.Unlock()
	b.Heal(id)
	return known
}

func readFault(r *http.Request) (Fault, error) {
	var body faultBody
	if err := faultapi.Decode(r, &body); err != nil {
		return Fault{}, err
	}
	f := Fault{
		Kind: kinds[body.Kind], Entity: body.Entity, Times: body.Times,
		Condition: body.Condition, Description: body.Description, Status: body.Status,
	}
	if f.Kind == 0 {
		return f, fmt.Errorf("unknown kind %q; the kinds are %s", body.Kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	for _, name := range body.On {
		if ops[name] == 0 {
			return f, fmt.Errorf("unknown operation %q; the operations are %s", name, strings.Join(slices.Sorted(maps.Keys(ops)), ", "))
		}
		f.On |= ops[name]
	}
	if body.Delay != "" {
		var err error
		if f.Delay, err = time.ParseDuration(body.Delay); err != nil {
			return f, err
		}
	}
	return f, nil
}

// listFaults returns the faults that have not ended.
func (b *Broker) listFaults() []faultBody {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []faultBody{}
	for _, f := range b.faults {
		body := faultBody{
			ID: f.id, Kind: f.Kind.String(), Entity: f.Entity, Times: f.Times,
			Condition: f.Condition, Description: f.Description, Status: f.Status,
		}
		for _, name := range slices.Sorted(maps.Keys(ops)) {
			if f.On&ops[name] != 0 {
				body.On = append(body.On, name)
			}
		}
		if f.Delay != 0 {
			body.Delay = f.Delay.String()
		}
		list = append(list, body)
	}
	return list
}

// adminFailure is the body of an answer under Admin.
type adminFailure struct {
	XMLName    xml.Name `xml:"Error"`
	Code       int
	Detail     string
	retryAfter time.Duration
}

func (f *fault) answer() answer {
	status := cmp.Or(f.Status, http.StatusServiceUnavailable)
	return answer{status, adminFailure{Code: status, Detail: f.error().Description, retryAfter: f.Delay}}
}

func (a answer) header() http.Header {
	h := http.Header{"Content-Type": {contentType}}
	if f, ok := a.document.(adminFailure); ok && f.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(f.retryAfter.Seconds()))))
	}
	return h
}
