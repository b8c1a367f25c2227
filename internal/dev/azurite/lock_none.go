//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package azurite

import (
	"context"
	"os"
)

// lock does nothing here: two processes may download the same at once, and the
// second finds the folder in place when it wants to rename its own.
func lock(context.Context, string, func()) (*os.File, error) { return nil, nil }
