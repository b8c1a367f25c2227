//go:build unix

package journal

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A new log that has its name and cannot be used must lose it again: the next
// start would read it, without what went into the old one after it.
func TestCompactFailsAfterItsRename(t *testing.T) {
	one := func(emit func(byte, []byte) error) error { return emit('a', []byte("one")) }
	tests := []struct {
		name    string
		compact func(j *Journal) error
		goesOn  bool
	}{
		{"no descriptor is left", func(j *Journal) error {
			var limit syscall.Rlimit
			if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				return err
			}
			defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) }() // it was its own before
			return j.Compact(func(emit func(byte, []byte) error) error {
				none := limit
				none.Cur = 0
				return errors.Join(one(emit), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
			})
		}, true},
		{"the folder cannot be synced", func(j *Journal) error {
			return errors.Join(j.dir.Close(), j.Compact(one))
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			folder := t.TempDir()
			j, _, _ := open(t, folder)
			j.Append('a', []byte("one"))
			if err := j.Sync(); err != nil {
				t.Fatal(err)
			}
			if err := tt.compact(j); err == nil {
				t.Fatal("Compact did not fail")
			}
			if _, err := os.Stat(path(folder, 2)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the new log: %v", err)
			}
			j.Append('a', []byte("two"))
			want := []string{"aone", "atwo"}
			if err := j.Sync(); tt.goesOn != (err == nil) {
				t.Errorf("Sync after it: %v", err)
			} else if err != nil {
				want = want[:1]
				if !strings.Contains(err.Error(), "start again") {
					t.Errorf("the error says not what to do: %v", err)
				}
			}
			_ = errors.Join(j.file.Close(), j.dir.Close(), j.lock.Close()) // a kill; the folder may be closed
			j, records, _ := open(t, folder)
			defer j.Close()
			if !slices.Equal(records, want) {
				t.Errorf("the next start has %q, want %q", records, want)
			}
		})
	}
}
