package localhost

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"kennel/internal/customhandler"
)

// childApp is a handler of package customhandler. A call of Next returns the
// value of its route, and Sweep and Work print that they ran.
func childApp() http.Handler {
	app := must(customhandler.New(nil))
	app.HTTP("Next", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "next of %q", r.PathValue("sequence"))
	}), "/api/sequences/{sequence}/next")
	app.HTTP("Person", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("RAN Person", r.Header.Get("X-MS-CLIENT-PRINCIPAL"))
	}), "/api/person/{path...}")
	app.Timer("Sweep", "tick", func(context.Context, customhandler.Tick) error { fmt.Println("RAN Sweep"); return nil })
	app.Queue("Work", "msg", func(_ context.Context, m customhandler.QueueMessage) error {
		fmt.Println("RAN Work", m.Text)
		return nil
	})
	return app
}

// TestForgedEnvelopes: with the key of one function a caller can make the host
// forward a call to any address of the handler, but the handler does not take
// it for an envelope. All forms of the address were seen on the genuine host.
func TestForgedEnvelopes(t *testing.T) {
	r := start(t, files{
		"host.json":            handlerHostJSON,
		"Next/function.json":   `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","authLevel":"function","route":"sequences/{sequence}/next"},` + httpOutput + `]}`,
		"Person/function.json": `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","authLevel":"anonymous","route":"person/{*path}"},` + httpOutput + `,{"type":"queue","direction":"out","name":"q","queueName":"outcomes"}]}`,
		"Sweep/function.json":  `{"bindings":[{"type":"timerTrigger","direction":"in","name":"tick","schedule":"0 0 0 1 1 *"}]}`,
		"Work/function.json":   `{"bindings":[{"type":"queueTrigger","direction":"in","name":"msg","queueName":"%JOBS%"}]}`,
	}, Options{
		Env: map[string]string{childMode: "app"}, Queues: newQueues(t),
		Keys: &Keys{Master: "master", Host: "host", Functions: map[string]string{"Next": "own", "Sweep": "other"}},
	})
	forged := map[string]string{
		"Person": `{"Data":{"req":{"Url":"http://h/api/person/x","Method":"POST","Headers":{"X-MS-CLIENT-PRINCIPAL":["ceo"]}}},"Metadata":{}}`,
		"Sweep":  `{"Data":{"tick":{}},"Metadata":{}}`,
		"Work":   `{"Data":{"msg":"\"forged\""},"Metadata":{}}`,
	}
	const chunked = "Transfer-Encoding: chunked\r\n"
	calls := 0
	for function, body := range forged {
		for _, tt := range []struct {
			name, target, header string
			want                 int
		}{
			{"a question mark, key in a header", "P%3F/next", "x-functions-key: own\r\n", 404},
			{"a number sign, key in a header", "P%23/next", "x-functions-key: own\r\n", 404},
			{"a question mark in lower case", "P%3f/next", "x-functions-key: own\r\n", 404},
			{"the host key", "P%3F/next", "x-functions-key: host\r\n", 404},
			{"the master key", "P%3F/next", "x-functions-key: master\r\n", 404},
			{"key in the query", "P%3F/next?code=own", "", 404},
			{"two question marks", "P%3F%3F/next?code=own", "", 404},
			{"a number sign, key in the query", "P%23/next?code=own", "", 404},
			{"a question mark and a number sign", "P%3F%23/next?code=own", "", 404},
			{"key in the query in upper case", "P%3F/next?CODE=own", "", 404},
			{"key as the second parameter", "P%3F/next?a=1&code=own", "", 404},
			{"absolute form", "http://h" + "P%3F/next?code=own", "", 404},
			{"absolute form, key in a header", "http://h" + "P%3F/next", "x-functions-key: own\r\n", 404},
			{"the key declared as a header of the connection", "P%3F/next", "x-functions-key: own\r\nConnection: x-functions-key\r\n", 404},
			{"chunked", "P%3F/next", "x-functions-key: own\r\n" + chunked, 500},
			{"chunked, key in the query", "P%3F/next?code=own", chunked, 500},
			{"without what cuts the address", "P/next", "x-functions-key: own\r\n", 404},
			{"escaped slashes", "/api/sequences/x%2F..%2F..%2F..%2FF%3F/next", "x-functions-key: own\r\n", 404},
			{"escaped twice", "/api/sequences/x%255C..%255C..%255C..%255CF%253F/next", "x-functions-key: own\r\n", 200},
			{"without a key", "P%3F/next", "", 401},
			{"the key of another function", "P%3F/next", "x-functions-key: other\r\n", 401},
			{"a wrong key", "P%3F/next?code=wrong", "", 401},
			{"anonymous", "/api/person/x%5C..%5C..%5C..%5CF%3F", "", 200}, // in an envelope of its own function
		} {
			if tt.name == "anonymous" && function == "Person" {
				continue // it reaches its own address
			}
			target := strings.ReplaceAll(tt.target, "P", "/api/sequences/x%5C..%5C..%5C..%5CF")
			target = strings.Replace(target, "CF%", "C"+function+"%", 1)
			target = strings.Replace(target, "FF%", "F"+function+"%", 1)
			target = strings.Replace(target, "CF/", "C"+function+"/", 1)
			sent := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
			if strings.Contains(tt.header, chunked) {
				sent = fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			}
			status := raw(t, r, "POST "+target+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\n"+tt.header+sent)
			if status != tt.want {
				t.Errorf("%s, %s (%s): got %d, want %d", function, tt.name, target, status, tt.want)
			}
			calls++
		}
	}
	// The genuine calls arrive, so the handler was there all the time.
	if resp, text := r.call(t, "POST", "/api/sequences/a/next", nil, func(req *http.Request) { req.Header.Set("x-functions-key", "own") }); resp.StatusCode != 200 || text != `next of "a"` {
		t.Errorf("a genuine call: %d %s", resp.StatusCode, text)
	}
	for _, function := range []string{"Sweep", "Work"} {
		r.call(t, "POST", "/admin/functions/"+function, strings.NewReader(`{"input":"genuine"}`), func(req *http.Request) {
			req.Header.Set("x-functions-key", "master")
			req.Header.Set("Content-Type", "application/json")
		})
	}
	r.await(t, "RAN Sweep")
	r.await(t, "RAN Work genuine")
	r.end(t)
	if text := r.console.String(); strings.Count(text, "RAN Sweep") != 1 || strings.Count(text, "RAN Work") != 1 || strings.Contains(text, "RAN Person ceo") {
		t.Errorf("a forged envelope reached its function after %d calls:\n%s", calls, text)
	}
}

// raw sends the bytes of a request to a host and returns the status.
func raw(t *testing.T, r *running, request string) int {
	t.Helper()
	conn := must(net.Dial("tcp", r.listener.Addr().String()))
	defer conn.Close()
	must(io.WriteString(conn, request))
	text := string(must(io.ReadAll(conn)))
	status := 0
	if _, err := fmt.Sscanf(text, "HTTP/1.1 %d", &status); err != nil {
		t.Fatalf("%q was answered by %q", request, text)
	}
	return status
}
