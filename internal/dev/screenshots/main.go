// Screenshots takes the pictures of the console for docs/console.md:
//
//	go run ./internal/dev/screenshots docs/images
//
// It starts the app with Azurite and development buses, gives it invented data,
// and opens its page in Chromium, light and dark. What takes hours or several
// machines to happen, such as the history of scaling, other instances and a month
// of the bill, is invented in screenshots.mjs.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./internal/dev/screenshots FOLDER")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) error {
	browser, err1 := find("a browser: apt-get install chromium", "chromium", "chromium-browser", "google-chrome")
	node, err2 := find("Node.js 20 or later, with npm", "node")
	npm, err3 := find("npm, which comes with Node.js", "npm")
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "screenshots")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	err = errors.Join(os.CopyFS(scratch, os.DirFS(suite)), os.WriteFile(filepath.Join(scratch, "screenshots.mjs"), script, 0o600))
	if err != nil {
		return err
	}
	if err := command(ctx, scratch, nil, npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
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
		err = command(ctx, scratch, []string{"CHROMIUM=" + browser, "APP=" + app.URL}, node, "screenshots.mjs")
	}
	if err = errors.Join(err, stop()); err != nil {
		return err
	}
	return shrink(filepath.Join(scratch, "images"), folder)
}

func find(what string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on the PATH; install %s", names[0], what)
}

func command(ctx context.Context, dir string, environment []string, program string, args ...string) error {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.WaitDelay = dir, 5*time.Second
	c.Env = append(os.Environ(), environment...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), args[0], err, out)
	}
	return nil
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
