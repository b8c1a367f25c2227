package localhost

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childMode makes this test binary the handler under the host's supervision.
const childMode = "LOCALHOST_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "":
		os.Exit(m.Run())
	case "polite":
		terminate := make(chan os.Signal, 1)
		signal.Notify(terminate, syscall.SIGTERM)
		go func() {
			<-terminate
			fmt.Println("got SIGTERM")
			os.Exit(0)
		}()
		fallthrough
	case "handler":
		panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"), http.HandlerFunc(childServe)))
	case "app":
		panic(http.ListenAndServe("127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"), childApp()))
	case "mute":
		time.Sleep(time.Hour) // until it is killed
	default:
		os.Exit(number(os.Getenv(childMode)))
	}
}

// childServe is a handler that executes the caller's command: the query
// parameter do of a forwarded request, or the request's query or the message in
// an envelope.
func childServe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	if r.URL.Path == "/" {
		return
	}
	if strings.HasPrefix(strings.ToLower(r.URL.Path), "/api/") {
		if answer, ok := childDo(w, r, r.URL.Query().Get("do")); ok {
			w.Header().Set("X-Seen", r.Method+" "+r.URL.RequestURI()+" "+strconv.Itoa(len(body)))
			ids := r.Header.Values("X-Azure-Functions-InvocationId")
			w.Header().Set("X-Request-Id", ids[0][strings.LastIndexByte(ids[0], ' ')+1:]) // one line, ours last
			w.Header().Set("X-Request-Ids", strings.Join(ids, "|"))
			fmt.Fprint(w, cmp.Or(answer, string(body)))
		}
		return
	}

	var envelope struct {
		Data     map[string]json.RawMessage
		Metadata struct {
			DequeueCount string
			RetryContext *struct {
				RetryCount, MaxRetryCount int
				Exception                 struct{ Message string }
			}
		}
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		panic(err)
	}
	var twice, command string
	_ = json.Unmarshal(envelope.Data["msg"], &twice)
	_ = json.Unmarshal([]byte(twice), &command)
	var req struct{ Query map[string]string }
	_ = json.Unmarshal(envelope.Data["req"], &req)
	command = cmp.Or(command, req.Query["do"])
	if c := envelope.Metadata.RetryContext; c != nil {
		fmt.Printf("delivery %s retry %d of %d after %q\n", envelope.Metadata.DequeueCount, c.RetryCount, c.MaxRetryCount, c.Exception.Message)
		if command == fmt.Sprint("until:", c.RetryCount) {
			command = ""
		}
	}

	answer, ok := childDo(w, r, command)
	if !ok {
		return
	}
	outputs := map[string]any{"res": map[string]any{
		"statusCode": 201,
		"headers":    map[string]string{"X-Function": r.URL.Path},
		"body":       cmp.Or(answer, string(body)),
	}}
	if command == "also" {
		outputs["res2"] = []string{"a message"}
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(map[string]any{"Outputs": outputs, "Logs": []string{"a log of " + r.URL.Path}}); err != nil {
		panic(err)
	}
}

// childDo executes one command. If ok, the caller must respond, with the text
// unless it is empty.
func childDo(w http.ResponseWriter, r *http.Request, command string) (answer string, ok bool) {
	name, argument, _ := strings.Cut(command, ":")
	switch name {
	case "exit":
		for i := range 5 {
			fmt.Fprintln(os.Stderr, "last line", i+1)
		}
		os.Exit(number(argument))
	case "empty":
		w.WriteHeader(http.StatusOK)
		return "", false
	case "status":
		w.WriteHeader(number(argument))
		fmt.Fprint(w, "details")
		return "", false
	case "until":
		w.WriteHeader(http.StatusInternalServerError)
		return "", false
	case "hang":
		fmt.Println("hanging", argument)
		<-r.Context().Done()
		return "", false
	case "note":
		fmt.Println("noted", argument)
	case "pid":
		return strconv.Itoa(os.Getpid()), true
	case "env":
		return os.Getenv(argument), true
	}
	return "", true
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}
