// Package faultapi controls the faults of a server on this machine over HTTP:
//
//	POST   /faults       adds one, from JSON
//	GET    /faults       lists the faults
//	DELETE /faults/{id}  heals one
//	DELETE /faults       heals all
//
// What a fault is and does is the server's.
package faultapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Path is where the faults are.
const Path = "/faults"

// Faults are those of a server.
type Faults struct {
	Add  func(*http.Request) (id int, err error) // from the body of a request
	List func() any                              // those that have not ended, for JSON
	Heal func(id int) (known bool)
	All  func() // heals all
}

// Is reports whether a request has one of the addresses above.
func Is(r *http.Request) bool {
	return r.URL.Path == Path || strings.HasPrefix(r.URL.Path, Path+"/")
}

// Handler serves the faults. A server can add addresses of its own.
func Handler(faults Faults) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, func(w http.ResponseWriter, r *http.Request) {
		id, err := faults.Add(r)
		if err != nil {
			http.Error(w, "The fault is invalid: "+err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, http.StatusCreated, map[string]int{"id": id})
	})
	mux.HandleFunc("GET "+Path, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, faults.List())
	})
	mux.HandleFunc("DELETE "+Path, func(w http.ResponseWriter, _ *http.Request) {
		faults.All()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("DELETE "+Path+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil {
			http.Error(w, "The id of a fault is a number.", http.StatusBadRequest)
			return
		}
		if !faults.Heal(id) {
			http.Error(w, "There is no such fault. It may have ended.", http.StatusNotFound)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller has gone
}

// Decode reads the JSON of a fault, which has no members that body lacks.
func Decode(r *http.Request, body any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<16))
	decoder.DisallowUnknownFields()
	return decoder.Decode(body)
}
