package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
)

// Files of a folder: storage-1.log and so on, of which the last counts.
// One with the ending of unfinished was not renamed yet when its process ended.
const (
	prefix     = "storage-"
	suffix     = ".log"
	unfinished = ".new"
)

func path(folder string, number uint64) string {
	return filepath.Join(folder, prefix+strconv.FormatUint(number, 10)+suffix)
}

// begin writes a log with a snapshot, and opens it for more. The log has its
// name only when it is complete and durable.
func begin(folder, name string, snapshot func(emit func(kind byte, record []byte) error) error) (file *os.File, frame uint64, size int64, err error) {
	file, err = os.OpenFile(name+unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, 0, err
	}
	frame, size, err = writeSnapshot(file, snapshot)
	err = errors.Join(err, file.Close()) // Windows renames no open file
	if err == nil {
		err = errors.Join(os.Rename(name+unfinished, name), syncFolder(folder))
	}
	if err == nil {
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		_ = os.Remove(name + unfinished) // otherwise the next start does
		return nil, 0, 0, err
	}
	return file, frame, size, nil
}
