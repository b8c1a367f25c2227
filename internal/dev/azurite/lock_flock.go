//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package azurite

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// lock waits until no other process holds path. It is held until the file is
// closed by every process that has it open, or these processes end; where
// there are no such locks, the file is nil and nothing is held.
func lock(ctx context.Context, path string, waiting func()) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			file.Close()
			return nil, err
		}
		if !told {
			waiting()
			told = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		}
	}
}
