// Bare is what the handler is measured against: net/http and nothing else,
// answering the same lines.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
)

// headers are those that every answer of the handler has.
var headers = []struct {
	name  string
	value []string
}{
	{"Cache-Control", []string{"no-store"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"Strict-Transport-Security", []string{"max-age=31536000"}},
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"Content-Type", []string{"application/json"}},
}

func main() {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"))
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", answer("{}\n"))
	mux.HandleFunc("POST /api/sequences/{sequence}/next", answer(`{"sequence":"orders","first":100001,"last":100001,"count":1}`+"\n"))
	log.Fatal(http.Serve(listener, mux))
}

func answer(body string) http.HandlerFunc {
	text := []byte(body)
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for _, header := range headers {
			h[header.name] = header.value
		}
		h["X-Request-Id"] = []string{r.Header.Get("X-Azure-Functions-Invocationid")}
		w.Write(text)
	}
}
