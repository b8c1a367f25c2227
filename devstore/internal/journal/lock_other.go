//go:build !unix

package journal

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockFolder makes this process the only one with the folder: Windows removes
// no file that a process has open. The lock ends with the process.
func lockFolder(folder string) (*os.File, error) {
	name := filepath.Join(folder, "lock")
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("the storage in %s is open in another process: stop that one, or choose another folder (%w)", folder, err)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the storage: %w", err)
	}
	return file, nil
}

// syncFolder does nothing: Windows keeps a rename with the file.
func (j *Journal) syncFolder() error { return nil }
