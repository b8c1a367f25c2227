package localhost

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"kennel/internal/customhandler"
)

// adminReason is the reason that the host logs for a run through the admin API.
const adminReason = "This function was programmatically called via the host APIs."

// serveAdmin serves requests below /admin. With Keys they need the master key.
func (h *Host) serveAdmin(work context.Context, w http.ResponseWriter, r *http.Request, path []string) {
	if h.keys != nil && !h.isMaster(r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var f *function
	if len(path) >= 3 && strings.EqualFold(path[1], "functions") {
		if f = h.function(path[2]); f == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		path[2] = "name"
	}
	switch r.Method + " /" + strings.ToLower(strings.Join(path, "/")) {
	case "GET /admin/host/ping", "POST /admin/host/ping":
		w.WriteHeader(http.StatusOK)
	case "GET /admin/host/status":
		writeJSON(w, http.StatusOK, h.status())
	case "GET /admin/functions":
		list := make([]functionInfo, 0, len(h.functions))
		for _, f := range h.functions {
			list = append(list, h.describe(r, f))
		}
		writeJSON(w, http.StatusOK, list)
	case "GET /admin/functions/name":
		writeJSON(w, http.StatusOK, h.describe(r, f))
	case "GET /admin/functions/name/status":
		writeJSON(w, http.StatusOK, functionStatus{IsDisabled: f.disabled, Errors: problemLines(f)})
	case "POST /admin/functions/name":
		h.runFunction(work, w, r, f)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// function finds a function by its name in any case.
func (h *Host) function(name string) *function {
	for _, f := range h.functions {
		if strings.EqualFold(f.name, name) {
			return f
		}
	}
	return nil
}

// errNoRequest fails an HTTP function that is run by hand.
var errNoRequest = errors.New("exception binding the trigger: an HttpRequest is required; call the route of the function instead")

// runFunction runs a function and responds at once. The result of the run is
// only logged.
func (h *Host) runFunction(work context.Context, w http.ResponseWriter, r *http.Request, f *function) {
	if !hasJSON(r) {
		w.WriteHeader(http.StatusUnsupportedMediaType)
		return
	}
	var request *struct {
		Input string `json:"input"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.bodyLimit))
	if err != nil || json.Unmarshal(body, &request) != nil || request == nil {
		writeJSON(w, http.StatusBadRequest, message{`the body must be a JSON object {"input":"<text>"}`})
		return
	}
	trigger := f.trigger()
	from := customhandler.Trigger{Function: f.name, Binding: trigger.name, DataType: trigger.dataType}
	var envelope customhandler.Envelope
	switch {
	case f.problem != nil:
		// To the host, a function with a problem does not exist.
		w.WriteHeader(http.StatusNotFound)
		return
	case trigger.is("httpTrigger"):
		// The real host starts it, too, and fails before it calls the handler.
		_ = h.logExecution(f, adminReason, customhandler.NewInvocationID(), func() error { return errNoRequest })
		w.WriteHeader(http.StatusAccepted)
		return
	case trigger.is("timerTrigger"):
		plan, _ := parseSchedule(trigger.schedule)
		envelope = from.AdminTimer(customhandler.Tick{AdjustForDST: plan.every == 0}, request.Input)
	default:
		envelope = from.AdminText(request.Input)
	}
	h.visits.extend(func() {
		// The result is logged on the console; no caller waits for it.
		_ = h.invoke(work, f, adminReason, envelope, nil)
	})
	w.WriteHeader(http.StatusAccepted)
}

// hasJSON reports whether the body of a request is declared as JSON in one of
// the ways that ASP.NET reads.
func hasJSON(r *http.Request) bool {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (media == "application/json" || media == "text/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

type message struct {
	Message string `json:"message"`
}

type functionInfo struct {
	Name       string        `json:"name"`
	Language   string        `json:"language"`
	IsDisabled bool          `json:"isDisabled"`
	InvokeURL  string        `json:"invoke_url_template,omitempty"`
	Config     functionShape `json:"config"`
}

type functionShape struct {
	Bindings []map[string]any `json:"bindings"`
}

type functionStatus struct {
	IsDisabled bool     `json:"isDisabled"`
	Errors     []string `json:"errors"`
}

type hostStatus struct {
	ID      string   `json:"id"`
	State   string   `json:"state"`
	Version string   `json:"version"`
	Errors  []string `json:"errors,omitempty"`
}

// status returns the state Running, or Error after the handler has exited with
// code 0. The real host keeps reporting Running in that case, which hides the
// problem.
func (h *Host) status() hostStatus {
	status := hostStatus{ID: "localhost", State: "Running", Version: customhandler.DefaultHostVersion}
	if h.handler != nil && h.handler.dead() {
		status.State = "Error"
		status.Errors = []string{"the handler exited with code 0 and is not restarted; restart the host"}
	}
	return status
}

func (h *Host) describe(r *http.Request, f *function) functionInfo {
	info := functionInfo{Name: f.name, Language: "custom", IsDisabled: f.disabled, Config: functionShape{Bindings: f.shown}}
	for _, e := range h.endpoints {
		if e.function == f {
			info.InvokeURL = "http://" + r.Host + "/" + e.route.template
		}
	}
	return info
}

func problemLines(f *function) []string {
	if f.problem == nil {
		return []string{}
	}
	return strings.Split(f.problem.Error(), "\n")
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	// A write fails only if the client has disconnected.
	_, _ = w.Write(body)
}
