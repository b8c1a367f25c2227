package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// open opens a folder, and returns its records.
func open(t testing.TB, folder string) (*Journal, []string, *bytes.Buffer) {
	t.Helper()
	var records []string
	var log bytes.Buffer
	j, err := Open(folder, slog.New(slog.NewTextHandler(&log, nil)), func(kind byte, record []byte) error {
		records = append(records, fmt.Sprintf("%c%s", kind, record))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return j, records, &log
}

// kill ends a journal as a kill does: nothing is written any more.
func kill(t testing.TB, j *Journal) {
	t.Helper()
	if err := errors.Join(j.file.Close(), j.dir.Close(), j.lock.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestSyncedRecordsSurvive(t *testing.T) {
	folder := t.TempDir()
	j, _, _ := open(t, folder)
	var mu sync.Mutex
	var confirmed []string
	var wg sync.WaitGroup
	for writer := range 8 {
		wg.Go(func() {
			for i := range 50 {
				record := fmt.Sprintf("%d-%d", writer, i)
				j.Append('a', []byte(record))
				if err := j.Sync(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				confirmed = append(confirmed, "a"+record)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	j.Append('a', []byte("not synced"))
	kill(t, j)

	j, records, _ := open(t, folder)
	defer j.Close()
	slices.Sort(records)
	slices.Sort(confirmed)
	if !slices.Equal(records, confirmed) {
		t.Errorf("%d records were read, %d confirmed", len(records), len(confirmed))
	}
}

// A log that ends anywhere in its last frame, or holds noughts or noise from
// there on, loses that frame alone, and takes new records.
func TestTornEnd(t *testing.T) {
	folder := t.TempDir()
	j, _, _ := open(t, folder)
	for _, record := range []string{"one", "two", "three"} {
		j.Append('q', []byte(record))
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	name, before := j.file.Name(), j.size-int64(frameHead+len("three")+2)
	kill(t, j)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := before; cut < int64(len(whole)); cut++ {
		for _, tail := range []string{"", strings.Repeat("\x00", 50), strings.Repeat("\xf7K", 25)} {
			if err := os.WriteFile(name, append(slices.Clone(whole[:cut]), tail...), 0o600); err != nil {
				t.Fatal(err)
			}
			j, records, log := open(t, folder)
			if !slices.Equal(records, []string{"qone", "qtwo"}) {
				t.Fatalf("cut at %d: %q", cut, records)
			}
			if warned := log.Len() > 0; warned != (cut > before || tail != "") {
				t.Errorf("cut at %d with a tail of %d: log %q", cut, len(tail), log)
			}
			j.Append('q', []byte("four"))
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			j, records, _ = open(t, folder)
			if !slices.Equal(records, []string{"qone", "qtwo", "qfour"}) {
				t.Fatalf("cut at %d, then more: %q", cut, records)
			}
			kill(t, j)
		}
	}
}

func TestDamageIsNotCutOff(t *testing.T) {
	folder := t.TempDir()
	j, _, _ := open(t, folder)
	for range 3 {
		j.Append('t', []byte("record"))
		if err := j.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	name := j.file.Name()
	kill(t, j)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	second := len(header) + frameHead + len("record") + 2
	for at := range second + frameHead + 8 {
		broken := slices.Clone(whole)
		broken[at] ^= 0x40
		if err := os.WriteFile(name, broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if j, err := Open(folder, slog.New(slog.DiscardHandler), func(byte, []byte) error { return nil }); err == nil {
			kill(t, j)
			t.Fatalf("byte %d was changed, and the log was opened", at)
		}
		if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, broken) {
			t.Fatalf("byte %d was changed, and then the file by the start", at)
		}
	}
}

func TestCompact(t *testing.T) {
	folder := t.TempDir()
	j, _, _ := open(t, folder)
	for i := range 100 {
		j.Append('b', fmt.Appendf(nil, "old %d", i))
	}
	old := j.file.Name()
	failed := errors.New("disk full")
	if err := j.Compact(func(func(byte, []byte) error) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("a snapshot that failed: %v", err)
	}
	j.Append('b', []byte("after a failure"))
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	kill(t, j)
	j, records, _ := open(t, folder)
	if len(records) != 101 {
		t.Fatalf("%d records after a snapshot that failed, want 101", len(records))
	}
	if err := j.Compact(func(emit func(byte, []byte) error) error {
		return errors.Join(emit('b', []byte("whole")), emit('q', bytes.Repeat([]byte("x"), 3<<20)))
	}); err != nil {
		t.Fatal(err)
	}
	j.Append('b', []byte("new"))
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old log: %v", err)
	}
	kill(t, j)
	j, records, _ = open(t, folder)
	defer j.Close()
	if len(records) != 3 || records[0] != "bwhole" || len(records[1]) != 3<<20+1 || records[2] != "bnew" {
		t.Errorf("%d records after a snapshot", len(records))
	}
}

// A process that was killed while it replaced its log leaves both, or one that
// has no name yet.
func TestKilledWhileCompacting(t *testing.T) {
	folder := t.TempDir()
	j, _, _ := open(t, folder)
	j.Append('b', []byte("whole"))
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	kill(t, j)
	if err := os.WriteFile(path(folder, 2)+unfinished, []byte("kennel"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, records, _ := open(t, folder)
	if !slices.Equal(records, []string{"bwhole"}) {
		t.Errorf("with an unfinished log: %q", records)
	}
	old, err := os.ReadFile(path(folder, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Compact(func(emit func(byte, []byte) error) error { return emit('b', []byte("short")) }); err != nil {
		t.Fatal(err)
	}
	kill(t, j)
	if err := os.WriteFile(path(folder, 1), old, 0o600); err != nil {
		t.Fatal(err)
	}
	j, records, _ = open(t, folder)
	defer j.Close()
	if !slices.Equal(records, []string{"bshort"}) {
		t.Errorf("with two logs: %q", records)
	}
	if _, err := os.Stat(path(folder, 1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old log: %v", err)
	}
}

// Who comes late to replace the log of a folder that was closed changes nothing:
// the folder may be open again.
func TestCompactAfterClose(t *testing.T) {
	folder := t.TempDir()
	j, _, _ := open(t, folder)
	j.Append('b', []byte("old"))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	next, _, _ := open(t, folder)
	defer next.Close()
	if err := j.Compact(func(emit func(byte, []byte) error) error { return emit('b', []byte("late")) }); !errors.Is(err, errClosed) {
		t.Errorf("replaced after its end: %v", err)
	}
	if _, err := os.Stat(path(folder, 2)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the log that would replace it: %v", err)
	}
	if err := j.Sync(); !errors.Is(err, errClosed) {
		t.Errorf("Sync after the end: %v", err)
	}
}

func TestOneProcessHasAFolder(t *testing.T) {
	folder := t.TempDir()
	j, _, _ := open(t, folder)
	defer j.Close()
	if _, err := Open(folder, slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), "open in another process") {
		t.Errorf("a second one: %v", err)
	}
}

// After a write that failed nothing is confirmed any more, because the state in
// memory is ahead of the log.
func TestFailedWrite(t *testing.T) {
	j, _, _ := open(t, t.TempDir())
	if err := j.file.Close(); err != nil {
		t.Fatal(err)
	}
	j.Append('a', []byte("one"))
	for range 2 {
		if err := j.Sync(); err == nil || !strings.Contains(err.Error(), "free space") {
			t.Errorf("a write to a closed file: %v", err)
		}
	}
	kept := len(j.pending)
	j.Append('a', []byte("two"))
	if len(j.pending) != kept {
		t.Error("records are kept that nothing will write")
	}
	_ = j.lock.Close()
}

func FuzzFrames(f *testing.F) {
	var log bytes.Buffer
	for i := range 3 {
		if _, err := writeFrame(&log, uint64(i), appendRecord(nil, 'a', []byte("record"))); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(log.Bytes())
	f.Fuzz(func(t *testing.T, log []byte) {
		from := bytes.NewReader(log)
		for number := uint64(0); ; number++ {
			records, err := readFrame(from, number, int64(from.Len()))
			if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
				followed(log, number)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = eachRecord(records, func(byte, []byte) error { return nil }) // an error is an answer
		}
	})
}
