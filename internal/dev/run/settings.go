package run

import (
	"maps"
	"strings"

	"kennel/internal/config"
)

// The settings that a run gives a value itself.
const (
	storageSetting     = "AzureWebJobsStorage" // followed by "__" and more for an account that is reached by identity
	runtimeSetting     = "FUNCTIONS_WORKER_RUNTIME"
	executableSetting  = "AzureFunctionsJobHost__customHandler__description__defaultExecutablePath"
	developmentStorage = "UseDevelopmentStorage=true"

	busSetting = "ServiceBus" // like storage in one of two forms
	standInBus = "ServiceBusSecondary"
)

// settings is what the app runs with: the environment and, for names that it
// lacks, local.settings.json. Without any setting of a storage account it is
// the storage of this machine.
func settings(local, env map[string]string) map[string]string {
	all := map[string]string{runtimeSetting: "custom"} // without it `func` stops and asks
	maps.Copy(all, local)
	maps.Copy(all, env)
	if !mentions(all, storageSetting) {
		all[storageSetting] = developmentStorage
	}
	return all
}

// mentions reports whether the settings name a connection, in any of the
// spellings that the host understands.
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

// isDevelopment reports whether the app is to use the storage of this machine.
func isDevelopment(s config.Storage) bool {
	return strings.TrimRight(s.ConnectionString, ";") == developmentStorage
}

// environ is a map of settings as a child process wants it.
func environ(settings map[string]string) []string {
	pairs := make([]string, 0, len(settings))
	for name, value := range settings {
		pairs = append(pairs, name+"="+value)
	}
	return pairs
}
