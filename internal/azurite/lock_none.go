//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package azurite

import "context"

// lock does nothing here: two processes may download the same at once, and the
// second finds the folder in place when it wants to rename its own.
func lock(context.Context, string, func()) (unlock func(), err error) {
	return func() {}, nil
}
