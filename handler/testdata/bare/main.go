// Bare is what the handler is measured against: net/http and nothing else,
// answering the same bytes.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte("{}\n"))
	})
	mux.HandleFunc("POST /api/sequences/{sequence}/next", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"sequence":"orders","first":100001,"last":100001,"count":1}` + "\n"))
	})
	log.Fatal(http.Serve(listener, mux))
}
