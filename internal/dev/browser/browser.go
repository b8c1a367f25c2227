// Package browser runs scripts of Playwright with the Chromium of this machine:
// the tests of the console, and the program that takes its pictures.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A tool is a program that scripts need: its names, and how to get it.
type tool struct {
	names []string
	get   string
}

var (
	chromium = tool{[]string{"chromium", "chromium-browser", "google-chrome"}, "install a browser, such as with: apt-get install chromium"}
	node     = tool{[]string{"node"}, "install Node.js 20 or later: https://nodejs.org"}
	npm      = tool{[]string{"npm"}, "install npm, which comes with Node.js: https://nodejs.org"}
)

func (t tool) find() (path string, err error) {
	for _, name := range t.names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not on the PATH: %s", strings.Join(t.names, " or "), t.get)
}

// Scripts are scripts in a folder, with the packages of their lock file.
type Scripts struct {
	dir, node   string
	environment []string
}

// Install copies the folder of scripts into an empty folder and installs their
// packages there. The environment is that of npm and of the scripts. The error
// has every tool that is missing, and how to get it.
func Install(ctx context.Context, environment []string, scripts, dir string) (*Scripts, error) {
	chromium, err1 := chromium.find()
	node, err2 := node.find()
	npm, err3 := npm.find()
	err := errors.Join(err1, err2, err3)
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(scripts))
	}
	if err != nil {
		return nil, err
	}
	s := &Scripts{dir, node, append(slices.Clone(environment), "NO_COLOR=1", "CHROMIUM="+chromium)}
	_, err = s.run(ctx, nil, npm, "ci", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts")
	return s, err
}

// Run runs a script, the last of args, and returns its output. Its environment
// also has CHROMIUM and these settings.
func (s *Scripts) Run(ctx context.Context, settings []string, args ...string) (output []byte, err error) {
	return s.run(ctx, settings, s.node, args...)
}

func (s *Scripts) run(ctx context.Context, settings []string, program string, args ...string) (output []byte, err error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.WaitDelay = s.dir, 5*time.Second
	c.Env = append(slices.Clone(s.environment), settings...)
	if output, err = c.CombinedOutput(); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), args[len(args)-1], err, output)
	}
	return output, err
}
