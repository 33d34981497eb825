package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// healLogs cuts half-written entries off the ends of kfake's group and producer logs.
//
// When kfake loads a log with such an end, it ignores the end, but leaves it there and appends behind it. The next load would stop at the
// end and lose every commit since the crash. In segments of records, kfake itself cuts such an end off.
func healLogs(dir string, logger *slog.Logger) error {
	for _, name := range []string{"groups.log", "pids.log"} {
		path := filepath.Join(dir, name)
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		whole := wholeEntries(raw)
		if whole == len(raw) {
			continue
		}
		logger.Warn("a half-written entry is cut off", "file", path, "bytes", len(raw)-whole)
		if err := os.Truncate(path, int64(whole)); err != nil {
			return fmt.Errorf("cut the damaged end off %s: %w", path, err)
		}
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// wholeEntries returns the length of the prefix that holds whole entries: little-endian length and CRC-32C of what follows,
// four bytes each, then a version of two bytes and the data (kfake, persist.go, "append log entries").
func wholeEntries(raw []byte) int {
	start := 0 // of the entry
	for len(raw)-start >= 10 {
		length := int64(binary.LittleEndian.Uint32(raw[start:]))
		end := int64(start) + 8 + length
		if length < 2 || end > int64(len(raw)) {
			break
		}
		if crc32.Checksum(raw[start+8:end], castagnoli) != binary.LittleEndian.Uint32(raw[start+4:]) {
			break
		}
		start = int(end)
	}
	return start
}
