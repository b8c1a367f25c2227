package localhost

import (
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadHostFile(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		env        settings
		want       hostFile
	}{
		{
			name: "everything", file: `{
		"VERSION":"2.0", "logging":{"anything":[1,2]}, "functionTimeout":"00:07:00", "functions":["A","B"],
		"customHandler":{
			"description":{"defaultExecutablePath":"%DIR%/hand%NOTHING%ler","arguments":["x"],"workerArguments":["-w"],"unheardOf":1},
			"EnableForwardingHttpRequest":"True", "initializationTimeout":"00:00:05", "port":7, "http":{"routes":[]}},
		"extensions":{"http":{"routePrefix":"/v1/"},"queues":{"batchSize":"4","maxDequeueCount":3,"visibilityTimeout":"00:00:30",
			"maxPollingInterval":"00:00:09","messageEncoding":"None"}},
		"retry":{"strategy":"fixedDelay","maxRetryCount":2,"delayInterval":"00:00:03"}}`,
			env: settings{"DIR": "bin", "ARG": "value",
				"azurefunctionsjobhost__extensions__queues__newBatchThreshold": "1",
				"AzureFunctionsJobHost__functionTimeout":                       "-1",             // no limit
				"AzureFunctionsJobHost__customHandler__description__arguments": `["-a","%ARG%"]`, // a whole list
			},
			want: hostFile{
				handler: handlerCommand{executable: "bin/handler", arguments: []string{"-a", "value"}},
				forward: true, described: true, startUp: 5 * time.Second, prefix: "v1", only: []string{"A", "B"},
				queues: queueSettings{batchSize: 4, newBatchThreshold: 1, maxPollingDelay: 9 * time.Second, maxDequeueCount: 3,
					visibility: 30 * time.Second, plainText: true},
				retry:   &retryPolicy{count: 2, low: 3 * time.Second, high: 3 * time.Second},
				unknown: []string{"customHandler.description.workerArguments", "customHandler.http", "customHandler.port"},
			},
		},
		{
			name: "defaults", file: `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`,
			env: settings{"AzureFunctionsJobHost__customHandler__description__defaultExecutablePath": "/elsewhere"},
			want: hostFile{
				handler:   handlerCommand{executable: "/elsewhere"},
				described: true, startUp: 30 * time.Second, timeout: 30 * time.Minute, prefix: "api",
				queues: queueSettings{batchSize: 16, newBatchThreshold: 8 * runtime.NumCPU(), maxPollingDelay: 2 * time.Second, maxDequeueCount: 5},
			},
		},
	} {
		got := must(readHostFile(write(t, files{"host.json": tt.file}), tt.env))
		same(t, tt.name, got, tt.want, cmp.AllowUnexported(hostFile{}, handlerCommand{}, queueSettings{}, retryPolicy{}))
	}
}

func TestHostFileProblems(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"no JSON", `version: 2`, "read host.json"},
		{"null", `null`, "it is not a JSON object"},
		{"version", `{}`, `version must be "2.0"`},
		{"section of the wrong type", `{"version":"2.0","customHandler":[]}`, "customHandler must be an object"},
		{"no executable", `{"version":"2.0","customHandler":{"description":{}}}`, "customHandler.description.defaultExecutablePath is missing"},
		{"executable is a list", `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":["x"]}}}`, "customHandler.description.defaultExecutablePath must be a string"},
		{"flag", `{"version":"2.0","customHandler":{"enableForwardingHttpRequest":1}}`, "customHandler.enableForwardingHttpRequest must be true or false"},
		{"arguments", `{"version":"2.0","customHandler":{"description":{"arguments":[1]}}}`, "customHandler.description.arguments must be a list of strings"},
		{"type", `{"version":"2.0","customHandler":{"type":"grpc"}}`, "customHandler.type"},
		{"timeout under a second", `{"version":"2.0","functionTimeout":"00:00:00.5"}`, "functionTimeout must be a time span"},
		{"timeout of the wrong type", `{"version":"2.0","functionTimeout":true}`, "functionTimeout must be a time span"},
		{"batch size", `{"version":"2.0","extensions":{"queues":{"batchSize":33}}}`, "extensions.queues.batchSize must be a whole number from 1 to 32"},
		{"batch size in words", `{"version":"2.0","extensions":{"queues":{"batchSize":"many"}}}`, "extensions.queues.batchSize"},
		{"batch size true", `{"version":"2.0","extensions":{"queues":{"batchSize":true}}}`, "extensions.queues.batchSize"},
		{"polling too fast", `{"version":"2.0","extensions":{"queues":{"maxPollingInterval":"00:00:00.05"}}}`, "extensions.queues.maxPollingInterval"},
		{"encoding", `{"version":"2.0","extensions":{"queues":{"messageEncoding":"utf8"}}}`, "extensions.queues.messageEncoding"},
		{"prefix", `{"version":"2.0","extensions":{"http":{"routePrefix":{}}}}`, "extensions.http.routePrefix must be a string"},
		{"retry policy", `{"version":"2.0","retry":{"strategy":"fixedDelay"}}`, "retry.maxRetryCount must be set"},
		{"all at once", `{"functionTimeout":"soon","extensions":{"queues":{"batchSize":0}}}`, "version must be"},
	}
	for _, tt := range tests {
		_, err := readHostFile(write(t, files{"host.json": tt.file}), nil)
		expectError(t, tt.name, err, tt.want)
		if tt.name == "all at once" {
			expectError(t, tt.name, err, "functionTimeout")
			expectError(t, tt.name, err, "batchSize")
		}
	}
	_, err := readHostFile(t.TempDir(), nil)
	expectError(t, "without host.json", err, "host.json")
}

func TestExpand(t *testing.T) {
	env := settings{"Name": "x", "EMPTY": ""}
	for text, want := range map[string]string{
		"a%NAME%b%name%": "axbx",
		"%EMPTY%":        "",
		"100%":           "100%",
		"%%":             "%%",
	} {
		if got, err := env.resolve(text); err != nil || got != want {
			t.Errorf("resolve %q: got %q, %v; want %q", text, got, err, want)
		}
	}
	if got, missing := env.expand("<%GONE%>"); got != "<>" || len(missing) != 1 {
		t.Errorf("expand an unset name: got %q, %v; want nothing in its place", got, missing)
	}
	_, err := env.resolve("%GONE%")
	expectError(t, "resolve an unset name", err, "GONE")
}
