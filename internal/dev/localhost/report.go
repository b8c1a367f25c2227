package localhost

import (
	"context"
	"strings"
)

// announce reports the addresses of the functions once the handler is ready.
func (h *Host) announce(ctx context.Context) {
	if h.handler != nil {
		if _, err := h.handler.wait(ctx, nil); err != nil {
			if ctx.Err() == nil {
				close(h.ready) // the handler cannot be started
			}
			return
		}
	}
	close(h.ready)
	for _, e := range h.endpoints {
		methods := strings.Join(e.methods, ",")
		if methods == "" {
			methods = "any method"
		}
		h.out.say("Serving %s: [%s] %s/%s", e.function.name, methods, h.URL(), e.route.template)
	}
	for _, f := range h.functions {
		if f.problem == nil && !f.trigger().is("httpTrigger") {
			h.out.say("Serving %s: %s", f.name, f.trigger().kind)
		}
	}
	h.out.say("Host started: %s", h.URL())
}

// report reports problems and warnings about the app before it starts.
func (h *Host) report(root string) {
	for _, key := range h.file.unknown {
		h.out.say("WARNING: this local host does not support %s of host.json and ignores it.", key)
	}
	if runtime, _ := h.env.lookup("FUNCTIONS_WORKER_RUNTIME"); !strings.EqualFold(runtime, "custom") {
		h.out.say("WARNING: the setting FUNCTIONS_WORKER_RUNTIME is not \"custom\": `func` would prompt or start another runtime.")
	}
	for _, name := range []string{"WEBSITE_TIME_ZONE", "TZ"} {
		if zone, ok := h.env.lookup(name); ok && len(h.timers) > 0 && zone != "" && !strings.EqualFold(zone, "UTC") && !strings.EqualFold(zone, "Etc/UTC") {
			h.out.say("WARNING: the setting %s is %q, but the timers of this local host use UTC.", name, zone)
		}
	}
	for _, path := range invisible(root) {
		h.out.say("WARNING: %s IS IGNORED. The host reads function.json only in the direct sub-folders of %s; the real host does not report this.", path, root)
	}
	for _, f := range h.functions {
		for _, b := range f.bindings {
			if b.is("queueTrigger") && b.connection != defaultConnection {
				h.out.say("WARNING: function '%s' uses the connection %s, but this local host has one storage account for all queues.", f.name, b.connection)
			}
		}
		switch trigger := f.trigger(); {
		case f.retry == nil || f.problem != nil || trigger.is("timerTrigger"):
		case h.file.forward && f.forwards():
			h.out.say("WARNING: function '%s' has a retry policy, which this local host ignores for forwarded requests.", f.name)
		default:
			h.out.say("WARNING: Soon retries will not be supported for function '%s'. Azure documents retry policies for timers, but not for the trigger %s.", f.name, trigger.kind)
		}
		switch {
		case f.problem != nil:
			for _, line := range problemLines(f) {
				h.out.say("ERROR: function '%s' is not loaded: %s", f.name, line)
			}
		case f.disabled:
			h.out.say("Function '%s' is disabled.", f.name)
		}
	}
	if h.handler == nil {
		h.out.say("NO FUNCTION WAS FOUND in the direct sub-folders of %s: the handler is not started, as in the real host.", root)
	}
}
