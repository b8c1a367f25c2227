package azurite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

const (
	// pingTime is how long the registry may take to answer a first small
	// request.
	pingTime = 8 * time.Second

	// npmTime is how long npm itself may take in addition: a second or two, and
	// several while a compiler uses all processors.
	npmTime = 30 * time.Second
)

// ping returns an error if npm cannot reach its registry. npm itself sends the
// request, so its settings of registry, proxy and certificates apply. This
// separates an unreachable registry, which is reported in seconds, from a slow
// one, which may take as long as it needs.
func ping(ctx context.Context, npm string) error {
	limited, cancel := context.WithTimeout(ctx, pingTime+npmTime)
	defer cancel()
	err := run(limited, "", npm, "ping", "--fetch-retries=0", fmt.Sprintf("--fetch-timeout=%d", pingTime.Milliseconds()))
	switch failed, known := errors.AsType[*npmError](err); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		err = fmt.Errorf("npm did not end in %v", pingTime+npmTime)
	case !known || failed.reached():
		return nil // the installation may succeed, or gives a better error
	}
	return fmt.Errorf("the npm registry cannot be reached (%w); check the network and the settings `registry` and `proxy` of npm, or "+withoutAzurite, err)
}

// download downloads the packages of the lock file in dir.
func download(ctx context.Context, npm, dir string) error {
	// By default npm repeats a request after 10 s and after another minute.
	err := run(ctx, dir, npm, "ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--engine-strict=false",
		"--loglevel=error", "--fetch-retries=3", "--fetch-retry-factor=3", "--fetch-retry-mintimeout=1000")
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("npm ci did not end in %v; try again on a faster network, or "+withoutAzurite, installTime)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("npm ci: %w", err)
	}
	return nil
}

// run runs npm. An error that npm explains is an *npmError.
func run(ctx context.Context, dir, npm string, args ...string) error {
	cmd := exec.CommandContext(ctx, npm, append(args, "--json")...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second // processes that it started may hold its output
	var answer struct{ Error npmError }
	stdout, stderr := new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case json.Unmarshal(stdout.Bytes(), &answer) == nil && answer.Error.Summary != "":
		return &answer.Error
	}
	const maxLength = 400
	text := strings.TrimSpace(stderr.String() + stdout.String())
	return fmt.Errorf("%w: %s", err, cmp.Or(text[max(0, len(text)-maxLength):], "no output"))
}

// npmError is an error that npm reports with --json.
type npmError struct{ Code, Summary string }

func (e *npmError) Error() string {
	first, _, _ := strings.Cut(strings.TrimPrefix(e.Summary, "FetchError: "), "\n")
	return first
}

var httpCode = regexp.MustCompile(`^E\d{3}$`)

// reached reports whether the registry answered, for example that it does not
// support the request, or npm is set to work offline.
func (e *npmError) reached() bool {
	return httpCode.MatchString(e.Code) || e.Code == "ENOTCACHED"
}
