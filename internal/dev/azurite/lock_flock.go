//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package azurite

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lock waits until no other process holds the lock on path. The lock is held
// until every process that has the file open closes it or ends. On a file
// system without locks, the file is nil and no lock is held.
func lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for reported := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, err
		}
		if !reported {
			waiting()
			reported = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		}
	}
}
