package devstore

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"kennel/internal/faultapi"
)

// This file controls the store over HTTP, at each of its ports:
//
//	POST   /faults       {"kind": "busy", "service": "queue", "times": 3}
//	GET    /faults       lists the faults
//	DELETE /faults/{id}  heals one
//	DELETE /faults       heals all
//	POST   /reset        forgets all data and all faults

// faultBody is a Fault in JSON.
type faultBody struct {
	ID        int    `json:"id"`
	Kind      string `json:"kind"`
	Service   string `json:"service,omitempty"`
	Container string `json:"container,omitempty"`
	Method    string `json:"method,omitempty"`
	Operation string `json:"operation,omitempty"`
	Skip      int    `json:"skip,omitempty"`
	Times     int    `json:"times,omitempty"`
	Delay     string `json:"delay,omitempty"` // such as 1m30s
	Happened  int    `json:"happened"`
}

var kinds = map[string]Kind{"refuse": Refuse, "fail": Fail, "cut": Cut, "busy": Busy, "late": Late, "slow": Slow}

// String returns the name of the kind over HTTP.
func (k Kind) String() string {
	for name, of := range kinds {
		if of == k {
			return name
		}
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// isControl reports whether a request is for the control of the store.
func isControl(r *http.Request) bool {
	return faultapi.Is(r) || r.URL.Path == "/"+controlReset
}

func (s *Store) control() http.Handler {
	mux := faultapi.Handler(faultapi.Faults{
		Add: func(r *http.Request) (int, error) {
			f, err := readFault(r)
			if err != nil {
				return 0, err
			}
			return s.Fail(f), nil
		},
		List: func() any { return s.faults.bodies() },
		Heal: func(id int) bool { return s.Heal(id) > 0 },
		All:  func() { s.Heal() },
	})
	mux.HandleFunc("POST /"+controlReset, func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Reset(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func readFault(r *http.Request) (Fault, error) {
	var body faultBody
	if err := faultapi.Decode(r, &body); err != nil {
		return Fault{}, err
	}
	f := Fault{
		Kind: kinds[body.Kind], Service: body.Service, Container: body.Container, Method: strings.ToUpper(body.Method),
		Operation: body.Operation, Skip: body.Skip, Times: body.Times,
	}
	if f.Kind == 0 {
		return f, fmt.Errorf("unknown kind %q; the kinds are %s", body.Kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if f.Skip < 0 || f.Times < 0 {
		return f, fmt.Errorf("skip and times are not negative")
	}
	switch f.Service {
	case "", "blob", "queue", "table":
	default:
		return f, fmt.Errorf("unknown service %q; the services are blob, queue, table", f.Service)
	}
	if body.Delay != "" {
		var err error
		if f.Delay, err = time.ParseDuration(body.Delay); err != nil {
			return f, err
		}
	}
	return f, nil
}

// bodies returns the faults that have not ended.
func (fs *faults) bodies() []faultBody {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	list := []faultBody{}
	for _, f := range fs.list {
		body := faultBody{
			ID: f.id, Kind: f.Kind.String(), Service: f.Service, Container: f.Container, Method: f.Method,
			Operation: f.Operation, Skip: f.Skip, Times: f.Times, Happened: f.happened,
		}
		if f.Delay > 0 {
			body.Delay = f.Delay.String()
		}
		list = append(list, body)
	}
	return list
}
