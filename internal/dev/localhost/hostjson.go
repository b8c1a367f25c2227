package localhost

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// hostFile is host.json with its defaults and with the overrides from the
// settings.
type hostFile struct {
	handler   handlerCommand
	forward   bool          // customHandler.enableForwardingHttpRequest
	startUp   time.Duration // customHandler.initializationTimeout
	timeout   time.Duration // functionTimeout; zero: unbounded
	prefix    string        // extensions.http.routePrefix
	queues    queueSettings
	retry     *retryPolicy // of functions without their own
	only      []string     // the functions to load; empty: all
	unknown   []string     // features of the real host that this host does not support
	described bool         // customHandler.description exists
}

// handlerCommand is customHandler.description: how the handler is started.
type handlerCommand struct {
	executable string
	arguments  []string
}

// queueSettings is extensions.queues.
type queueSettings struct {
	batchSize         int
	newBatchThreshold int
	maxPollingDelay   time.Duration
	maxDequeueCount   int64
	visibility        time.Duration // of a message whose invocation failed
	plainText         bool          // messageEncoding "none"
}

// developmentPolling is the maximum pause between two polls in the Development
// environment.
const developmentPolling = 2 * time.Second

// overridePrefix starts the settings that replace keys of host.json:
// AzureFunctionsJobHost__a__b is a.b.
const overridePrefix = "AzureFunctionsJobHost__"

// readHostFile reads <root>/host.json. Its error contains every problem with
// its key.
func readHostFile(root string, env settings) (hostFile, error) {
	text, err := os.ReadFile(filepath.Join(root, "host.json"))
	if err != nil {
		return hostFile{}, fmt.Errorf("read host.json: %w; start the host in the folder that contains it", err)
	}
	var problems []error
	top, err := newSection(text, &problems)
	if err != nil {
		return hostFile{}, fmt.Errorf("read host.json: %w", err)
	}
	if top.values == nil {
		return hostFile{}, errors.New("read host.json: it is not a JSON object")
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if len(name) > len(overridePrefix) && strings.EqualFold(name[:len(overridePrefix)], overridePrefix) {
			top.set(strings.Split(name[len(overridePrefix):], "__"), env[name])
		}
	}

	custom := top.section("customHandler")
	_, described := custom.get("description")
	queues := top.section("extensions").section("queues")
	command := custom.section("description")
	// As in the real host, an unset %NAME% in a path or argument becomes "".
	expand := func(text string) string { text, _ = env.expand(text); return text }
	file := hostFile{
		handler:   handlerCommand{executable: expand(command.text("defaultExecutablePath", ""))},
		forward:   custom.flag("enableForwardingHttpRequest", false),
		startUp:   custom.duration("initializationTimeout", 30*time.Second, time.Millisecond, 24*time.Hour),
		timeout:   30 * time.Minute,
		prefix:    strings.Trim(top.section("extensions").section("http").text("routePrefix", "api"), "/"),
		queues:    readQueueSettings(queues),
		retry:     readRetry(top),
		only:      top.texts("functions"),
		described: described,
	}
	for _, argument := range command.texts("arguments") {
		file.handler.arguments = append(file.handler.arguments, expand(argument))
	}
	if version := top.text("version", ""); version != "2.0" {
		problems = append(problems, fmt.Errorf(`version must be "2.0", not %q`, version))
	}
	if top.text("functionTimeout", "") == "-1" {
		file.timeout = 0
	} else {
		file.timeout = top.duration("functionTimeout", file.timeout, time.Second, 24*24*time.Hour)
	}
	if handlerType := custom.text("type", "http"); !strings.EqualFold(handlerType, "http") {
		problems = append(problems, fmt.Errorf(`customHandler.type must be "http", not %q`, handlerType))
	}
	if described && file.handler.executable == "" {
		problems = append(problems, errors.New("customHandler.description.defaultExecutablePath is missing; set it to the path of the handler"))
	}
	for _, key := range []string{
		"customHandler.description.defaultWorkerPath", "customHandler.description.workerArguments",
		"customHandler.description.workingDirectory", "customHandler.description.workerDirectory",
		"customHandler.enableProxyingHttpRequest", "customHandler.http", "customHandler.port",
		"httpWorker", "configurationProfile",
	} {
		if top.mentions(key) {
			file.unknown = append(file.unknown, key)
		}
	}
	if len(problems) > 0 {
		return hostFile{}, fmt.Errorf("read host.json: %w", errors.Join(problems...))
	}
	return file, nil
}

func readQueueSettings(queues section) queueSettings {
	settings := queueSettings{
		batchSize:       queues.number("batchSize", 16, 1, 32),
		maxPollingDelay: queues.duration("maxPollingInterval", developmentPolling, 100*time.Millisecond, 24*time.Hour),
		maxDequeueCount: int64(queues.number("maxDequeueCount", 5, 1, 1_000_000)),
		visibility:      queues.duration("visibilityTimeout", 0, 0, 7*24*time.Hour),
	}
	settings.newBatchThreshold = queues.number("newBatchThreshold", settings.batchSize/2*runtime.NumCPU(), 0, 1_000_000)
	switch encoding := queues.text("messageEncoding", "base64"); {
	case strings.EqualFold(encoding, "none"):
		settings.plainText = true
	case !strings.EqualFold(encoding, "base64"):
		queues.problem("messageEncoding", `"base64" or "none"`)
	}
	return settings
}

// mentions reports whether a dotted key exists.
func (s section) mentions(key string) bool {
	first, rest, deeper := strings.Cut(key, ".")
	value, ok := s.get(first)
	if !ok || !deeper {
		return ok
	}
	object, _ := value.(map[string]any)
	return section{values: object}.mentions(rest)
}
