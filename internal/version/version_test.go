package version

import (
	"runtime/debug"
	"testing"
)

func TestRead(t *testing.T) {
	stamped := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}},
	}
	for _, tt := range []struct {
		name            string
		version, commit string // from the linker
		info            *debug.BuildInfo
		want            Info
	}{
		{"linker", "v2.0.0-1-gdef", "def", stamped, Info{Version: "v2.0.0-1-gdef", Commit: "def"}},
		{"Go command", "", "", stamped, Info{Version: "v1.2.3", Commit: "abc"}},
		{"neither", "", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, Info{Version: "devel"}},
		{"no modules", "", "", nil, Info{Version: "devel"}},
	} {
		got := read(tt.version, tt.commit, tt.info)
		if got.Version != tt.want.Version || got.Commit != tt.want.Commit || got.Go == "" || got.Platform == "" {
			t.Errorf("%s: got %+v, want %+v, Go and platform", tt.name, got, tt.want)
		}
	}
}

func TestUserAgent(t *testing.T) {
	defer func(before string) { version = before }(version)
	for _, tt := range [][2]string{
		{"v0.1.0", "kennel/v0.1.0"},
		{"46a88a01d2-dirty", "kennel/46a88a01d2-dirty"},
		{"v0.1.0-12-g46a88a01d2-dirty", "kennel/v0.1.0-12-g46a88a"},
	} {
		if version = tt[0]; UserAgent() != tt[1] {
			t.Errorf("version %s: got %q, want %q", tt[0], UserAgent(), tt[1])
		}
	}
}
