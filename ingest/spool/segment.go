package spool

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// A segment is a file of records, in the order in which they came:
//
//	head    twice: "FBSPOOL1", a marker of 8 random bytes, CRC32C of both
//	record  marker, length, CRC32C of the payload, CRC32C of these 16 bytes; payload
//
// Numbers are little-endian and have 4 bytes. A record that is damaged ends where its length says, or, if that is damaged too, where the next
// marker is. Nobody outside knows the marker, so that no sender can have a part of a body taken for a record.
const (
	magic      = "FBSPOOL1"
	markerSize = 8
	headHalf   = len(magic) + markerSize + 4
	headSize   = 2 * headHalf
	recordHead = markerSize + 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

func newHead() ([]byte, error) {
	half := append([]byte(magic), make([]byte, markerSize)...)
	if _, err := rand.Read(half[len(magic):]); err != nil {
		return nil, err
	}
	half = binary.LittleEndian.AppendUint32(half, checksum(half))
	return append(half, half...), nil
}

// markerOf returns the marker of a segment; nil if data is none. Both copies may be damaged where the first record is not.
func markerOf(data []byte) []byte {
	if len(data) < headSize {
		return nil
	}
	for i := range 2 {
		half := data[i*headHalf:][:headHalf]
		body := half[:headHalf-4]
		if string(half[:len(magic)]) == magic && binary.LittleEndian.Uint32(half[headHalf-4:]) == checksum(body) {
			return body[len(magic):]
		}
	}
	if first := data[headSize:]; len(first) > markerSize && sizeOf(first, first[:markerSize]) > 0 {
		return first[:markerSize]
	}
	return nil
}

func headOf(marker, payload []byte) []byte {
	h := append(make([]byte, 0, recordHead), marker...)
	h = binary.LittleEndian.AppendUint32(h, uint32(len(payload)))
	h = binary.LittleEndian.AppendUint32(h, checksum(payload))
	return binary.LittleEndian.AppendUint32(h, checksum(h))
}

// sizeOf returns the size of the record whose head is at the beginning of data; 0 if that is no head.
func sizeOf(data, marker []byte) int64 {
	if len(data) < recordHead || !bytes.Equal(data[:markerSize], marker) ||
		binary.LittleEndian.Uint32(data[recordHead-4:]) != checksum(data[:recordHead-4]) {
		return 0
	}
	return recordHead + int64(binary.LittleEndian.Uint32(data[markerSize:]))
}

// payloadOf returns the payload of a whole record; false if it is not what was written.
func payloadOf(whole, marker []byte) ([]byte, bool) {
	if sizeOf(whole, marker) != int64(len(whole)) {
		return nil, false
	}
	payload := whole[recordHead:]
	return payload, binary.LittleEndian.Uint32(whole[markerSize+4:]) == checksum(payload)
}

// piece is a part of a segment: a record, or what is damaged between two.
type piece struct {
	at, size int64
	damaged  bool
}

// scan finds the records of a segment. What follows the last of them was being written when the process ended, and was never acknowledged:
// since a file that is damaged does not become shorter, that is a record which is cut off, or zeros.
func scan(data []byte) (found []piece, torn int64, ok bool) {
	marker := markerOf(data)
	if marker == nil {
		return nil, 0, false
	}
	for at := int64(headSize); at < int64(len(data)); {
		rest := data[at:]
		size := sizeOf(rest, marker)
		switch {
		case size > int64(len(rest)), len(rest) < recordHead, size == 0 && len(bytes.Trim(rest, "\x00")) == 0:
			return found, int64(len(rest)), true
		case size == 0:
			size = nextRecord(rest, marker)
			found = append(found, piece{at, size, true})
		default:
			_, whole := payloadOf(rest[:size], marker)
			found = append(found, piece{at, size, !whole})
		}
		at += size
	}
	return found, 0, true
}

// nextRecord returns where the next record begins behind a damaged one; the length of data if there is none.
func nextRecord(data, marker []byte) int64 {
	for at := 1; ; at++ {
		found := bytes.Index(data[at:], marker)
		if found < 0 {
			return int64(len(data))
		}
		if at += found; sizeOf(data[at:], marker) > 0 {
			return int64(at)
		}
	}
}

// segment is a file that is written to, or was.
type segment struct {
	path   string
	file   *os.File
	marker []byte
	size   int64 // of what is in it for good
	left   int   // records that are not in Kafka yet
	sealed bool  // nothing more is written to it
	faulty bool  // the start could not read all of it: what is damaged may be several records, which the disk gives now
	unread bool  // a record was given up that the disk did not give: the file is the only copy
}

// createSegment makes a segment that outlives a crash of the machine, as far as it is written and synced.
func createSegment(path string) (*segment, error) {
	head, err := newHead()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(head); err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return &segment{path: path, file: f, marker: head[len(magic):][:markerSize], size: int64(headSize)}, nil
}

// append writes entries and syncs the file. If that fails, the file ends where it ended before, or is not written to again.
func (s *segment) append(entries []*entry) error {
	at := s.size
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, at), 256<<10)
	for _, e := range entries {
		e.segment, e.at = s, at
		at += e.size
		_, _ = w.Write(headOf(s.marker, e.call.payload)) // an error stays, and Flush returns it
		_, _ = w.Write(e.call.payload)
	}
	err := w.Flush()
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size = at
	return nil
}

// read returns a piece: the payload of a record, or the bytes of what is none, and false. With an error these are what [readable] says.
func (s *segment) read(at, size int64) ([]byte, bool, error) {
	whole, err := readable(s.file, at, size)
	if payload, ok := payloadOf(whole, s.marker); ok {
		return payload, true, nil
	}
	return whole, false, err
}

// readable returns what a file has at a place, block by block where not all of it can be read, and then also why. What cannot is 0xff: zeros behind
// the last record are taken for what was never acknowledged.
func readable(f io.ReaderAt, at, size int64) ([]byte, error) {
	const block = 4096
	data := make([]byte, size)
	_, err := f.ReadAt(data, at)
	if err == nil {
		return data, nil
	}
	for rest := data; len(rest) > 0; {
		part := rest[:min(int64(len(rest)), block-at%block)]
		if n, failed := f.ReadAt(part, at); failed != nil {
			copy(part[n:], bytes.Repeat([]byte{0xff}, len(part)-n))
		}
		rest, at = rest[len(part):], at+int64(len(part))
	}
	return data, err
}

// unreadFile is behind the name of a file of which a record was given up unread. Nothing is read of it until that is taken away again.
const unreadFile = ".unread"

// remove deletes the file, or keeps it under another name.
func (s *segment) remove() error {
	if s.unread {
		return errors.Join(s.file.Close(), os.Rename(s.path, s.path+unreadFile))
	}
	return errors.Join(s.file.Close(), os.Remove(s.path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
