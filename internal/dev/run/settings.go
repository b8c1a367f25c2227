package run

import (
	"maps"
	"strings"

	"kennel/internal/config"
)

// The settings that a run sets.
const (
	storageSetting     = "AzureWebJobsStorage" // followed by "__" and a key to sign in by identity
	runtimeSetting     = "FUNCTIONS_WORKER_RUNTIME"
	developmentStorage = "UseDevelopmentStorage=true"
	bodyLimitSetting   = "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"
	bodyLimit          = "8388608" // as infra/ sets it: a host holds a body before the app can refuse its caller

	busSetting          = "ServiceBus" // in one of two forms, as for storage
	secondaryBusSetting = "ServiceBusSecondary"
)

// settings returns the settings of the app: the environment and, for names that
// are not in it, local.settings.json. If no setting names a storage account,
// the app uses the emulator on this machine.
func settings(local, env map[string]string) map[string]string {
	all := map[string]string{
		runtimeSetting:   "custom", // without it `func` prompts
		bodyLimitSetting: bodyLimit,
	}
	for name, value := range local {
		// An account in the environment replaces the whole one of the file.
		if !mentions(env, storageSetting) || !mentions(map[string]string{name: value}, storageSetting) {
			all[name] = value
		}
	}
	maps.Copy(all, env)
	if !mentions(all, storageSetting) {
		all[storageSetting] = developmentStorage
	}
	return all
}

// mentions reports whether the settings name a connection, in any spelling that
// the host accepts.
func mentions(settings map[string]string, connection string) bool {
	prefix := strings.ToLower(connection)
	for name, value := range settings {
		rest, ok := strings.CutPrefix(strings.ToLower(name), prefix)
		if ok && value != "" && (rest == "" || rest[0] == ':' || strings.HasPrefix(rest, "__")) {
			return true
		}
	}
	return false
}

// isDevelopment reports whether the app uses the emulator on this machine.
func isDevelopment(s config.Storage) bool {
	return strings.TrimRight(s.ConnectionString, ";") == developmentStorage
}

// environ returns the settings in the form of os.Environ.
func environ(settings map[string]string) []string {
	pairs := make([]string, 0, len(settings))
	for name, value := range settings {
		pairs = append(pairs, name+"="+value)
	}
	return pairs
}
