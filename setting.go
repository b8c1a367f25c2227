package kennel

import (
	"log/slog"

	"kennel/internal/program"
)

// Setting is a declared environment variable.
type Setting struct {
	app      *App
	declared *program.Setting
}

// SettingOptions are the options of a setting; nil and zero fields mean the
// defaults.
type SettingOptions struct {
	Default     string
	Description string // for the sample settings and the doctor
	Secret      bool   // it prints and logs as [secret], and comes from a key vault in Azure
	Optional    bool   // the program starts without a value
	Check       func(string) error
}

// Setting declares an environment variable. Its value can be read from OnStart
// on; a program whose settings are missing or wrong does not start.
func (a *App) Setting(name string, options *SettingOptions) *Setting {
	var opt SettingOptions
	if options != nil {
		opt = *options
	}
	s := &Setting{a, &program.Setting{Name: name, Default: opt.Default, Description: opt.Description, Secret: opt.Secret, Optional: opt.Optional, Check: opt.Check}}
	a.declaring("setting %q is declared", name)
	a.declared.Settings = append(a.declared.Settings, s.declared)
	return s
}

// Value returns the value, or the default. Before OnStart there is none: then the
// program is refused.
func (s *Setting) Value() string {
	running := s.app.running.Load()
	if running == nil {
		s.app.mistake("setting %q is read before OnStart: only a handler or OnStart can read it", s.declared.Name)
		return ""
	}
	return running.Setting(s.declared.Name)
}

// String implements [fmt.Stringer].
func (s *Setting) String() string {
	if s.declared.Secret {
		return "[secret]"
	}
	if running := s.app.running.Load(); running != nil {
		return running.Setting(s.declared.Name)
	}
	return "[not read yet]"
}

// LogValue implements [slog.LogValuer].
func (s *Setting) LogValue() slog.Value { return slog.StringValue(s.String()) }
