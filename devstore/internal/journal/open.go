package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Open reads the log of a folder, which is made if there is none, and calls
// apply for each of its records in the order in which they were appended. One
// process at a time has a folder open.
func Open(folder string, log *slog.Logger, apply func(kind byte, record []byte) error) (*Journal, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the storage: %w", err)
	}
	lock, err := lockFolder(folder)
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(folder)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the folder of the storage: %w", err), lock.Close())
	}
	j := &Journal{folder: folder, log: log, lock: lock, dir: dir}
	j.changed.L = &j.mu
	if err := j.load(apply); err != nil {
		return nil, errors.Join(err, dir.Close(), lock.Close())
	}
	return j, nil
}

// load reads the last log of the folder, removes others, and opens it for more.
func (j *Journal) load(apply func(kind byte, record []byte) error) error {
	numbers, err := j.logs()
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		return j.create()
	}
	j.number = numbers[len(numbers)-1]
	if err := j.read(apply); err != nil {
		return fmt.Errorf("read the storage in %s: %w", path(j.folder, j.number), err)
	}
	for _, number := range numbers[:len(numbers)-1] {
		if err := os.Remove(path(j.folder, number)); err != nil {
			return fmt.Errorf("remove a log that is not needed any more: %w", err)
		}
	}
	return nil
}

// logs returns the numbers of the logs in the folder, and removes unfinished
// ones.
func (j *Journal) logs() (numbers []uint64, err error) {
	entries, err := os.ReadDir(j.folder)
	if err != nil {
		return nil, fmt.Errorf("read the folder of the storage: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		rest, isLog := strings.CutPrefix(name, prefix)
		if isLog && strings.HasSuffix(name, suffix+unfinished) {
			if err := os.Remove(filepath.Join(j.folder, name)); err != nil {
				return nil, fmt.Errorf("remove an unfinished log: %w", err)
			}
		}
		rest, hasSuffix := strings.CutSuffix(rest, suffix)
		number, err := strconv.ParseUint(rest, 10, 64)
		if isLog && hasSuffix && err == nil {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// create begins the first log of a folder.
func (j *Journal) create() (err error) {
	j.number = 1
	j.file, j.frame, j.size, err = j.begin(j.number, func(func(byte, []byte) error) error { return nil })
	if err != nil {
		return fmt.Errorf("begin the storage in %s: %w", j.folder, err)
	}
	j.snapshot = j.size
	return nil
}

// read applies the records of the log, cuts off a torn end, and opens the file
// for more.
func (j *Journal) read(apply func(kind byte, record []byte) error) error {
	file, err := os.OpenFile(path(j.folder, j.number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := j.readFrames(file, apply); err != nil {
		return errors.Join(err, file.Close())
	}
	if _, err := file.Seek(j.size, io.SeekStart); err != nil {
		return errors.Join(err, file.Close())
	}
	j.file = file
	return nil
}

func (j *Journal) readFrames(file *os.File, apply func(kind byte, record []byte) error) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	from := bufio.NewReaderSize(file, 1<<20)
	head := make([]byte, len(header))
	if _, err := io.ReadFull(from, head); err != nil || string(head) != header {
		return fmt.Errorf("it does not begin with %q: it was written by another version or another program; delete the folder to begin with empty storage", strings.TrimSpace(header))
	}
	j.size = int64(len(header))
	for {
		records, err := readFrame(from, j.frame, info.Size()-j.size)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTorn):
			return j.cut(file, info.Size())
		case err != nil:
			return err
		}
		if err := eachRecord(records, apply); err != nil {
			return fmt.Errorf("frame %d at byte %d: %w; delete the folder to begin with empty storage", j.frame, j.size, err)
		}
		j.size += int64(frameHead + len(records))
		j.frame++
	}
}

// cut removes a torn frame from the end of the log.
func (j *Journal) cut(file *os.File, size int64) error {
	if _, err := file.Seek(j.size, io.SeekStart); err != nil {
		return err
	}
	rest, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if followed(rest, j.frame) {
		return fmt.Errorf("frame %d at byte %d is damaged, and others follow it: the disk lost what it had confirmed; restore the folder, or delete it to begin with empty storage", j.frame, j.size)
	}
	j.log.Warn("the end of the storage's log was not whole, as after a kill, and was cut off: nobody was told that it was stored",
		"file", file.Name(), "bytes", size-j.size)
	if err := file.Truncate(j.size); err != nil {
		return err
	}
	return file.Sync()
}
