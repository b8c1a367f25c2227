package journal

import (
	"errors"
	"fmt"
	"io/fs"
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
func (j *Journal) begin(number uint64, snapshot func(emit func(kind byte, record []byte) error) error) (file *os.File, frame uint64, size int64, err error) {
	name := path(j.folder, number)
	file, err = os.OpenFile(name+unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, 0, 0, err
	}
	frame, size, err = writeSnapshot(file, snapshot)
	err = errors.Join(err, file.Close()) // Windows renames no open file
	if err != nil {
		_ = os.Remove(name + unfinished) // otherwise the next start does
		return nil, 0, 0, err
	}
	if err = os.Rename(name+unfinished, name); err == nil {
		err = j.syncFolder()
	}
	if err == nil {
		file, err = os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, 0, 0, j.undo(name, err)
	}
	return file, frame, size, nil
}

// undo takes the name from a log that was not begun because of err. The next
// start would take it for the newest, without what goes into the present one
// from now on: if it may still have its name, this journal ends.
func (j *Journal) undo(name string, err error) error {
	var left error
	for _, name := range []string{name, name + unfinished} { // a rename that failed may have happened
		if e := os.Remove(name); !errors.Is(e, fs.ErrNotExist) {
			left = errors.Join(left, e)
		}
	}
	if left = errors.Join(left, j.syncFolder()); left == nil {
		return err
	}
	j.err = fmt.Errorf("begin a new log of the storage in %s: %w; start again", j.folder, errors.Join(err, left))
	return j.err
}
