package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"kennel/internal/dev/browser"
	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
	devrun "kennel/internal/dev/run"
)

// script opens the page. It needs playwright-core, whose version the tests of
// the console pin.
//
//go:embed screenshots.mjs
var script []byte

const suite = "internal/console/browser"

// takeScreenshots writes pictures of the console to a folder. It starts the app
// with storage and development buses, gives it invented data, and opens its page
// in Chromium, light and dark. What takes hours or several machines to happen,
// such as the history of scaling, other instances and a month of the bill, is
// invented in screenshots.mjs.
func takeScreenshots(ctx context.Context, folder string) error {
	scratch, err := os.MkdirTemp("", "screenshots")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	scripts, err := browser.Install(ctx, os.Environ(), suite, scratch)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "screenshots.mjs"), script, 0o600); err != nil {
		return err
	}

	hooks := startHooks()
	defer hooks.Close()
	app, stop, err := start(ctx, hooks.URL)
	if err != nil {
		return err
	}
	err = seed(ctx, app, hooks.URL)
	if err == nil {
		_, err = scripts.Run(ctx, []string{"APP=" + app.URL}, "screenshots.mjs")
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	return shrink(filepath.Join(scratch, "images"), folder)
}

// start starts the app as kennel up does. It may send webhooks to an address.
func start(ctx context.Context, hooks string) (ready devrun.Event, stop func() error, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return ready, nil, err
	}
	p, err := project.Open(dir, localhost.CheckFunction)
	if err != nil {
		return ready, nil, err
	}
	started := make(chan devrun.Event, 1)
	environment := map[string]string{"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "KENNEL_WEBHOOK_ALLOW": hooks + "/"}
	app, err := devrun.New(p, environment, &devrun.Options{Entities: entities, Report: func(e devrun.Event) error {
		if e.Event == "ready" {
			started <- e
		}
		return nil
	}})
	if err != nil {
		return ready, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	select {
	case ready = <-started:
		return ready, func() error { cancel(); return <-ended }, nil
	case err := <-ended:
		cancel()
		return ready, nil, fmt.Errorf("start the app: %w", err)
	}
}
