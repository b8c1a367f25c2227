//go:build unix

package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFolder makes this process the only one with the folder. The lock ends
// with the process, also if it is killed.
func lockFolder(folder string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the storage: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // the first error says what is wrong
		return nil, fmt.Errorf("the storage in %s is open in another process: stop that one, or choose another folder (%w)", folder, err)
	}
	return file, nil
}

// syncFolder makes a rename durable.
func (j *Journal) syncFolder() error { return j.dir.Sync() }
