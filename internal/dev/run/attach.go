package run

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// portSetting names the port at which the handler listens.
const portSetting = "FUNCTIONS_CUSTOMHANDLER_PORT"

// attachPort returns the port for a process that another program starts: that of
// the settings, else the one after the port of the app, so that it is the same
// each time, else any free one.
func (a *App) attachPort(ctx context.Context, app net.Listener) (int, error) {
	if text := a.settings[portSetting]; text != "" {
		port, err := strconv.Atoi(text)
		if err != nil || port < 1 || port > 65535 {
			return 0, fmt.Errorf("the setting %s is %q; use a number from 1 to 65535", portSetting, text)
		}
		return port, nil
	}
	tcp, _ := app.Addr().(*net.TCPAddr)
	var last error
	for _, port := range []int{tcp.Port + 1, 0} {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return listener.Addr().(*net.TCPAddr).Port, listener.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port for the process: %w", last)
}

// announceEnvironment reports what the process needs in its environment besides
// that of this program, after it has written it to a file, which the function
// that it returns removes.
func (a *App) announceEnvironment(all map[string]string) (remove func(), err error) {
	own := maps.Clone(all)
	maps.DeleteFunc(own, func(name, value string) bool { given, ok := a.given[name]; return ok && given == value })
	path := filepath.Join(a.project.Root, addressFolder, "env")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(own)) {
		fmt.Fprintf(&text, "%s=%s\n", name, own[name])
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	return func() { os.Remove(path) }, a.report(Event{Event: "attach", Environment: own, File: path})
}
