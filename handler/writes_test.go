package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"kennel/channels"
	"kennel/internal/memory"
)

// A caller hears that a change is unclear only if something was sent that may
// have made it; and what storage has declined is none.
func TestUnclearOrNot(t *testing.T) {
	reset := errors.New("reset by peer")
	for _, tt := range []struct {
		name  string
		fails string // which requests of a table or queue, from then on
		with  error
		code  string
		after string
	}{
		{"the first read fails", "Get Query", reset, "storage_unavailable", "5"},
		{"the first read is refused", "Get Query", channels.ErrRefused, "storage_unavailable", "60"},
		{"everything fails", "Get Query Submit Put", reset, "storage_unavailable", "5"},
		{"the write fails", "Submit Put", reset, "change_unclear", "5"},
		{"the write is refused", "Submit Put", channels.ErrRefused, "storage_unavailable", "60"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failing := false
				o := memory.Options{Fate: func(call memory.Call) memory.Fate {
					if failing && strings.Contains(tt.fails, call.Op) {
						return memory.Fate{Err: tt.with, Lost: true}
					}
					return memory.Fate{}
				}}
				newTable := func() *memory.Table { return memory.NewTable(&memory.TableOptions{Options: o}) }
				c := channelFunctions{log: slog.New(slog.DiscardHandler),
					channels: channelsIn(t, newTable(), newTable(), memory.NewOutbox(memory.NewQueues(&o), cleanupQueue), nil)}
				if _, _, err := c.channels.Create(t.Context(), "news", "ann"); err != nil {
					t.Fatal(err)
				}
				blog, err := c.channels.Post(t.Context(), "news", channels.Draft{Title: "t", UserID: "ann"})
				if err != nil {
					t.Fatal(err)
				}
				failing = true
				for _, call := range []struct {
					what, method, channel, body string
					failures                    []failure
					do                          func(*http.Request) (reply, error)
				}{
					{"create", "PUT", "other", `{"owner":"ann"}`, channelFailures, c.createChannel},
					{"delete", "DELETE", "news", "", channelDeleteFailures, c.deleteChannel},
					{"post", "POST", "news", draft, blogPostFailures, c.postBlog},
					{"update", "PUT", "news", draft, blogFailures, c.updateBlog},
					{"remove", "DELETE", "news", "", blogFailures, c.removeBlog},
				} {
					r := httptest.NewRequestWithContext(t.Context(), call.method, "/", strings.NewReader(call.body))
					r.Header.Set("Content-Type", "application/json")
					if call.what == "update" {
						r.Header.Set("If-Match", blog.ETag)
					}
					r.SetPathValue("channel", call.channel)
					r.SetPathValue("blog", blog.ID)
					w := httptest.NewRecorder()
					c.serve(call.failures, call.do).ServeHTTP(w, r)
					if w.Code != 503 || !strings.Contains(w.Body.String(), `"`+tt.code+`"`) || w.Header().Get("Retry-After") != tt.after {
						t.Errorf("%s: %d %v %s, want 503 %s after %s s", call.what, w.Code, w.Header(), w.Body, tt.code, tt.after)
					}
				}
			})
		})
	}
}
