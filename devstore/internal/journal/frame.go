package journal

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// A file begins with this line, and then has frames.
const header = "kennel storage, format 1\n"

// A frame is its mark, its number in the file, the length of its records, the
// CRC-32C of number, length and records, and the records. A record is its kind,
// its length as a varint, and its bytes.
const (
	mark      = "\xf7KSF"
	frameHead = len(mark) + 8 + 8 + 4
)

// errTorn is the end of a log that a kill or a full disk cut.
var errTorn = errors.New("the frame is not whole")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendRecord(to []byte, kind byte, record []byte) []byte {
	to = append(to, kind)
	to = binary.AppendUvarint(to, uint64(len(record)))
	return append(to, record...)
}

func writeFrame(to io.Writer, number uint64, records []byte) (n int64, err error) {
	var head [frameHead]byte
	copy(head[:], mark)
	binary.LittleEndian.PutUint64(head[4:], number)
	binary.LittleEndian.PutUint64(head[12:], uint64(len(records)))
	sum := crc32.Update(crc32.Checksum(head[4:20], castagnoli), castagnoli, records)
	binary.LittleEndian.PutUint32(head[20:], sum)
	if _, err := to.Write(head[:]); err != nil {
		return 0, err
	}
	if _, err := to.Write(records); err != nil {
		return 0, err
	}
	return int64(frameHead + len(records)), nil
}

// readFrame returns the records of the next frame, io.EOF at the end and
// errTorn for one that is not whole. limit is how many bytes are left.
func readFrame(from io.Reader, number uint64, limit int64) (records []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, torn(err)
	}
	length := binary.LittleEndian.Uint64(head[12:])
	if string(head[:len(mark)]) != mark || binary.LittleEndian.Uint64(head[4:]) != number || length > uint64(limit) {
		return nil, errTorn
	}
	records = make([]byte, length)
	if _, err := io.ReadFull(from, records); err != nil {
		return nil, torn(err)
	}
	sum := crc32.Update(crc32.Checksum(head[4:20], castagnoli), castagnoli, records)
	if sum != binary.LittleEndian.Uint32(head[20:]) {
		return nil, errTorn
	}
	return records, nil
}

func torn(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errTorn
	}
	return err
}

// eachRecord calls apply for the records of a frame.
func eachRecord(records []byte, apply func(kind byte, record []byte) error) error {
	for len(records) > 0 {
		length, n := binary.Uvarint(records[1:])
		if n <= 0 || length > uint64(len(records)-1-n) {
			return errors.New("a record has no end")
		}
		end := 1 + n + int(length)
		if err := apply(records[0], records[1+n:end:end]); err != nil {
			return err
		}
		records = records[end:]
	}
	return nil
}

// followed reports whether a frame with a higher number is in the rest of a
// log, which shows that a broken one before it was once whole.
func followed(rest []byte, number uint64) bool {
	for {
		at := bytes.Index(rest, []byte(mark))
		if at < 0 {
			return false
		}
		rest = rest[at:]
		if len(rest) >= frameHead {
			if found := binary.LittleEndian.Uint64(rest[4:]); found > number {
				if _, err := readFrame(bytes.NewReader(rest), found, int64(len(rest)-frameHead)); err == nil {
					return true
				}
			}
		}
		rest = rest[len(mark):]
	}
}

// writeSnapshot writes a file with the records that snapshot emits. It returns
// the number of the next frame, and the size.
func writeSnapshot(file *os.File, snapshot func(emit func(kind byte, record []byte) error) error) (frame uint64, size int64, err error) {
	to := bufio.NewWriterSize(file, 1<<20)
	size = int64(len(header))
	if _, err := to.WriteString(header); err != nil {
		return 0, 0, err
	}
	var records []byte
	flush := func() error {
		n, err := writeFrame(to, frame, records)
		records, size, frame = records[:0], size+n, frame+1
		return err
	}
	err = snapshot(func(kind byte, record []byte) error {
		records = appendRecord(records, kind, record)
		if len(records) < 1<<20 {
			return nil
		}
		return flush()
	})
	if err == nil && len(records) > 0 {
		err = flush()
	}
	if err == nil {
		err = to.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	return frame, size, err
}
