//go:build unix

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"

	"kennel/internal/storetest"
)

// coreTools is a fake of `func start --port N`. It starts the handler, and on
// Ctrl+C ends without stopping it, as the real tools may. CORETOOLS=stubborn
// makes it ignore Ctrl+C, CORETOOLS=fails makes it fail at its start.
func coreTools() {
	mode := os.Getenv("CORETOOLS")
	switch {
	case mode == "fails":
		fmt.Println("coretools: out of order")
		os.Exit(3)
	case len(os.Args) != 4 || !slices.Equal(os.Args[1:3], []string{"start", "--port"}):
		fmt.Println("coretools: unexpected arguments", os.Args)
		os.Exit(2)
	case os.Getenv("FUNCTIONS_WORKER_RUNTIME") != "custom":
		fmt.Println("coretools: would ask which runtime to use")
		os.Exit(2)
	}
	if err := coreToolsServe(os.Args[3], mode == "stubborn"); err != nil {
		fmt.Println("coretools:", err)
		os.Exit(1)
	}
}

func coreToolsServe(port string, stubborn bool) error {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	handlerPort, err := storetest.Port()
	if err != nil {
		return err
	}
	number := strconv.Itoa(handlerPort)
	address := "127.0.0.1:" + number

	handler := exec.Command("./" + os.Getenv("AzureFunctionsJobHost__customHandler__description__defaultExecutablePath"))
	handler.Env = append(os.Environ(), "FUNCTIONS_CUSTOMHANDLER_PORT="+number)
	handler.Stdout, handler.Stderr = os.Stdout, os.Stderr
	if err := handler.Start(); err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/host/status", func(w http.ResponseWriter, _ *http.Request) {
		state := "Starting" // until the handler listens
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			state = "Running"
		}
		fmt.Fprintf(w, `{"state":%q}`, state)
	})
	mux.Handle("/api/", httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address}))
	go http.Serve(listener, mux)
	for range interrupted {
		fmt.Println("coretools: interrupted")
		if !stubborn {
			break
		}
	}
	return nil
}
