package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/internal/suggest"
)

// Platform is where the app runs. Azure sets it; each part may be unknown.
type Platform struct {
	App           string // the name of the function app: WEBSITE_SITE_NAME
	Instance      string // the machine: WEBSITE_INSTANCE_ID
	ResourceGroup string // WEBSITE_RESOURCE_GROUP
	Host          string // the version of the Functions host: FUNCTIONS_EXTENSION_VERSION
	Address       string // the host name of the function app: WEBSITE_HOSTNAME
}

// InAzure reports whether the app runs in Azure, and not on the machine of a
// developer.
func (p Platform) InAzure() bool { return p.App != "" || p.Instance != "" }

func (r *reader) platform() Platform {
	return Platform{
		App:           r.get("WEBSITE_SITE_NAME"),
		Instance:      r.get("WEBSITE_INSTANCE_ID"),
		ResourceGroup: r.get("WEBSITE_RESOURCE_GROUP"),
		Host:          r.get("FUNCTIONS_EXTENSION_VERSION"),
		Address:       r.get("WEBSITE_HOSTNAME"),
	}
}

// Warning is a setting that does not stop the start, and is probably a mistake.
type Warning struct {
	Text    string // one sentence, starting with the setting's name
	Setting string // the setting to change
	Value   string // a valid value; "" if the setting should be removed
}

func (r *reader) warnings(invocation time.Duration) (warnings []Warning) {
	const runtime, timeout = "FUNCTIONS_WORKER_RUNTIME", "AzureFunctionsJobHost__functionTimeout"
	if value := r.get(runtime); value != "" && !strings.EqualFold(value, "custom") {
		warnings = append(warnings, Warning{runtime + " is not custom, so the host may not start this app", runtime, "custom"})
	}
	if limit, err := parseTimeout(r.connection(timeout)); err == nil {
		warnings = append(warnings, checkTimeout(timeout, limit, invocation)...)
	}
	return append(warnings, r.misspelt()...)
}

// misspelt finds settings that no program reads, but that are almost one of
// ours. Those that begin with KENNEL_ stop the start.
func (r *reader) misspelt() (warnings []Warning) {
	const maxTypos = 2
	sections := []string{"AzureWebJobsStorage", "ServiceBus"}
	known := slices.DeleteFunc(slices.Clone(r.known), func(name string) bool {
		return !strings.HasPrefix(name, "KENNEL_") &&
			!slices.ContainsFunc(sections, func(s string) bool { return strings.HasPrefix(name, s) })
	})
	for _, name := range slices.Sorted(maps.Keys(r.env)) {
		plain := strings.ReplaceAll(name, ":", "__")
		is := func(k string) bool { return strings.EqualFold(k, plain) }
		if len(name) < len("ServiceBus")-maxTypos || slices.ContainsFunc(r.known, is) {
			continue
		}
		if near := suggest.Nearest(plain, known, maxTypos); near != "" {
			warnings = append(warnings, Warning{fmt.Sprintf("%.60s is not a setting that this app reads: did you mean %s?", name, near), name, ""})
		}
	}
	return warnings
}

// CheckHostFile returns the faults of a host.json for this configuration.
func (c Config) CheckHostFile(text []byte) ([]Warning, error) {
	var file struct{ FunctionTimeout string }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, errors.New("host.json is not valid JSON")
	}
	if file.FunctionTimeout == "" {
		return nil, nil // the host's default depends on the plan
	}
	limit, err := parseTimeout(file.FunctionTimeout)
	if err != nil {
		return nil, fmt.Errorf("functionTimeout in host.json %w", err)
	}
	return checkTimeout("functionTimeout in host.json", limit, c.InvocationTimeout), nil
}

// checkTimeout compares the timeout of the host with ours. 0 is no limit.
func checkTimeout(name string, host, invocation time.Duration) []Warning {
	const setting = "KENNEL_INVOCATION_TIMEOUT"
	if host == 0 || invocation < host {
		return nil
	}
	text := fmt.Sprintf("%s is %s and not shorter than %s, which is %s: the host kills all invocations when one takes longer",
		setting, short(invocation), name, short(host))
	return []Warning{{text, setting, short((host * 9 / 10).Truncate(time.Second))}}
}

// parseTimeout parses a timeout of the host: hh:mm:ss, or -1 for no limit.
func parseTimeout(text string) (time.Duration, error) {
	if text == "-1" {
		return 0, nil
	}
	parts := strings.Split(text, ":")
	var seconds uint64
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 16)
		if err != nil || len(parts) != 3 {
			return 0, errors.New("is not of the form hh:mm:ss")
		}
		seconds = 60*seconds + n
	}
	return time.Duration(seconds) * time.Second, nil
}
