package devstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
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
	path := r.URL.Path
	return path == "/"+controlFaults || path == "/"+controlReset || strings.HasPrefix(path, "/"+controlFaults+"/")
}

func (s *Store) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /faults", func(w http.ResponseWriter, r *http.Request) {
		f, err := readFault(r)
		if err != nil {
			http.Error(w, "The fault is invalid: "+err.Error(), http.StatusBadRequest)
			return
		}
		answerJSON(w, http.StatusCreated, map[string]int{"id": s.Fail(f)})
	})
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) {
		answerJSON(w, http.StatusOK, s.faults.bodies())
	})
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		s.Heal()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE /faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.Error(w, "The id of a fault is a number.", http.StatusBadRequest)
			return
		}
		if s.Heal(id) == 0 {
			http.Error(w, "There is no such fault. It may have ended.", http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Reset(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}

func readFault(r *http.Request) (Fault, error) {
	var body faultBody
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<16))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil {
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
