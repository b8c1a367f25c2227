//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package azurite

import (
	"context"
	"os"
)

// lock does nothing on this system: two processes may download at the same
// time, and the second finds the folder in place when it renames its own.
func lock(context.Context, string, func()) (*os.File, error) { return nil, nil }
