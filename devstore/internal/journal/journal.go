// Package journal keeps records in a folder so that a process which was killed
// at any instant finds every one that [Journal.Sync] confirmed.
//
// A folder holds one file, the log. It begins with a snapshot, records from
// which the whole state can be built, and goes on with those that were appended
// since. [Journal.Compact] replaces it by a new one once it is much longer than
// its snapshot.
//
// Records that were appended at about the same time go to the disk in one
// frame, with one sync for all callers that wait. The next frame is written only
// after that. So only the last frame can be torn, and it is cut off at the next
// start: nobody was told that it is durable. A broken frame before another one
// is damage, which no start repairs.
package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// A log is rewritten when it is this long and has doubled since its snapshot.
const leastCompact = 16 << 20

// Journal is the open log of a folder.
type Journal struct {
	folder string
	log    *slog.Logger
	lock   *os.File
	dir    *os.File // the folder

	mu       sync.Mutex
	changed  sync.Cond // durable, syncing or err changed
	file     *os.File
	number   uint64 // of the file
	frame    uint64 // number of the next frame
	size     int64  // of the file
	snapshot int64  // size of the file after its snapshot
	pending  []byte // records that no frame holds yet
	spare    []byte // the buffer that is not pending
	appended uint64 // records, all together
	durable  uint64 // of these
	syncing  bool
	err      error // the log cannot be written any more
}

// Append adds a record. It returns before the record is on the disk: see
// [Journal.Sync].
func (j *Journal) Append(kind byte, record []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return // Sync says so; nothing takes pending records any more
	}
	j.pending = appendRecord(j.pending, kind, record)
	j.appended++
}

// Sync returns when all records that were appended before its call are durable.
// After an error the log stays as it is on the disk, and each further Sync
// returns that error: the state in memory is ahead of it.
func (j *Journal) Sync() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.sync(j.appended)
}

// sync waits until so many records are durable. The caller holds mu.
func (j *Journal) sync(upTo uint64) error {
	for j.err == nil && j.durable < upTo {
		if j.syncing {
			j.changed.Wait()
			continue
		}
		j.write()
	}
	return j.err
}

// write writes all pending records as one frame. The caller holds mu, which is
// free while the disk works, so that others append to the next frame.
func (j *Journal) write() {
	records, last := j.pending, j.appended
	j.pending, j.spare = j.spare[:0], nil
	j.syncing = true
	file, size, number := j.file, j.size, j.frame

	j.mu.Unlock()
	n, err := writeFrame(file, number, records)
	if err == nil {
		err = file.Sync()
	}
	j.mu.Lock()

	j.syncing, j.spare = false, records
	if cap(records) > 1<<20 {
		j.spare = nil // one large blob must not keep its memory
	}
	if err != nil {
		j.err = fmt.Errorf("write the log of the storage in %s: %w; free space on its disk, then start again", j.folder, err)
	} else {
		j.durable, j.size, j.frame = last, size+n, number+1
	}
	j.changed.Broadcast()
}

// Due reports whether the log is worth a [Journal.Compact].
func (j *Journal) Due() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err == nil && j.size > leastCompact && j.size > 2*j.snapshot
}

// Compact replaces the log by one that begins with the records which snapshot
// emits. Nothing may be appended meanwhile. If it fails, the log stays as it
// was, or it takes no more, and each further Sync says so.
func (j *Journal) Compact(snapshot func(emit func(kind byte, record []byte) error) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.sync(j.appended); err != nil {
		return err
	}
	file, frames, size, err := j.begin(j.number+1, snapshot)
	if err != nil {
		j.snapshot = j.size // try again when it has doubled
		return fmt.Errorf("shorten the log of the storage in %s: %w", j.folder, err)
	}
	old := j.file
	j.file, j.number, j.frame, j.size, j.snapshot = file, j.number+1, frames, size, size
	_ = old.Close()           // it is complete, and not needed any more
	_ = os.Remove(old.Name()) // the next start removes it otherwise
	return j.syncFolder()
}

// errClosed is the error of a journal whose folder may be another one's by now.
var errClosed = errors.New("the log of the storage is closed")

// Close makes all records durable and frees the folder.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.sync(j.appended)
	j.err = errClosed
	return errors.Join(err, j.file.Close(), j.dir.Close(), j.lock.Close())
}
