//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"

	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
	devrun "kennel/internal/dev/run"
)

// coreTools is a stand-in for `func start [--port N]`: it refuses what the
// genuine one refuses, and runs the folder in the local host. On Ctrl+C it ends
// at once, as the genuine one may. CORETOOLS=stubborn makes it ignore Ctrl+C,
// CORETOOLS=fails makes it fail at its start.
func coreTools() {
	mode := os.Getenv("CORETOOLS")
	if mode == "fails" {
		fmt.Println("coretools: out of order")
		os.Exit(3)
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		for range interrupted {
			fmt.Println("coretools: interrupted")
			if mode != "stubborn" {
				os.Exit(0)
			}
		}
	}()
	err := coreToolsServe(os.Args[1:])
	if errors.Is(err, localhost.ErrCrashed) {
		fmt.Println("Exceeded http worker restart retry count. Shutting down Functions Host")
		os.Exit(0)
	}
	if err != nil {
		fmt.Println("coretools:", err)
		os.Exit(1)
	}
}

// coreToolsServe runs the app in the working directory.
func coreToolsServe(args []string) error {
	port := "7071"
	if len(args) == 3 && args[1] == "--port" {
		port, args = args[2], args[:1]
	}
	if !slices.Equal(args, []string{"start"}) {
		return fmt.Errorf("unexpected arguments %q", args)
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	// The settings: of the file, and of the environment, which wins.
	local, err := (&project.Project{Root: here}).LocalSettings()
	if err != nil {
		return err
	}
	env := make(map[string]string)
	for name, value := range local.Values {
		env[name] = value
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	if err := devrun.CheckStaged(here, devrun.Machine(), env); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return fmt.Errorf("port %s is unavailable: %w", port, err)
	}
	settings, err := config.Load(env)
	if err != nil {
		return err
	}
	options := &localhost.Options{Env: env, Console: os.Stdout}
	if account := azure.Account(settings.Storage); account.ConnectionString != "" || account.QueueURL != "" {
		if options.Queues, err = account.OpenQueues(nil); err != nil {
			return err
		}
	}
	host, err := localhost.New(here, listener, options)
	if err != nil {
		return err
	}
	fmt.Println("coretools: listens on port " + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	return host.Run(context.Background())
}
