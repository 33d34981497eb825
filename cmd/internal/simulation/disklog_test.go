package simulation

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// diskLog is a partition's log as kfake leaves it in its directory.
type diskLog struct {
	dir       string
	topic     string
	partition int32
	snapshot  snapshot
	batches   []diskBatch
}

// diskBatch is a batch of a log, and where it ends in the file of its segment.
type diskBatch struct {
	kmsg.RecordBatch
	segment int64 // its first offset, which its files are named by
	ends    int64
}

// snapshot is kfake's snapshot.json of a partition.
type snapshot struct {
	Version          int         `json:"version"`
	HighWatermark    int64       `json:"high_watermark"`
	LastStableOffset int64       `json:"last_stable_offset"`
	LogStartOffset   int64       `json:"log_start_offset"`
	Epoch            int32       `json:"epoch"`
	LeaderNode       int32       `json:"leader_node"`
	MaxTimestamp     int64       `json:"max_timestamp"`
	CreatedAt        time.Time   `json:"created_at"`
	Segments         []segmentOf `json:"segments"`
}

type segmentOf struct {
	BaseOffset int64 `json:"base_offset"`
	Size       int64 `json:"size"`
	MinEpoch   int32 `json:"min_epoch"`
	MaxEpoch   int32 `json:"max_epoch"`
}

// diskLogs are all logs under the directory of a cluster that has ended, in the order of their names.
func diskLogs(dir string) (logs []*diskLog, err error) {
	dirs, err := filepath.Glob(filepath.Join(dir, "partitions", "*"))
	if err != nil {
		return nil, err
	}
	for _, at := range dirs {
		l, err := readDiskLog(at)
		if err != nil {
			return nil, fmt.Errorf("read the log in %s: %w", at, err)
		}
		logs = append(logs, l)
	}
	return logs, nil
}

func readDiskLog(dir string) (*diskLog, error) {
	name := filepath.Base(dir)
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return nil, errors.New("its name has no partition")
	}
	number, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil {
		return nil, err
	}
	l := &diskLog{dir: dir, partition: int32(number)}
	if l.topic, err = url.PathUnescape(name[:dash]); err != nil {
		return nil, err
	}
	if err := readJSON(filepath.Join(dir, "snapshot.json"), &l.snapshot); err != nil {
		return nil, err
	}
	segments, err := l.segments()
	if err != nil {
		return nil, err
	}
	for _, base := range segments {
		if err := l.readSegment(base); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// segments are the first offsets of the log's segments, which their files are named by.
func (l *diskLog) segments() (bases []int64, err error) {
	files, err := filepath.Glob(filepath.Join(l.dir, "*.dat"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".dat"), 10, 64)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	slices.Sort(bases)
	return bases, nil
}

func (l *diskLog) file(base int64, kind string) string {
	return filepath.Join(l.dir, strconv.FormatInt(base, 10)+kind)
}

func (l *diskLog) readSegment(base int64) error {
	raw, err := os.ReadFile(l.file(base, ".dat"))
	if err != nil {
		return err
	}
	const head = 12 // offset and length
	for at := 0; at < len(raw); {
		if at+head > len(raw) {
			return fmt.Errorf("segment %d ends within a batch", base)
		}
		size := head + int(binary.BigEndian.Uint32(raw[at+8:]))
		if at+size > len(raw) {
			return fmt.Errorf("segment %d ends within a batch", base)
		}
		b := diskBatch{segment: base, ends: int64(at + size)}
		if err := b.ReadFrom(raw[at : at+size]); err != nil {
			return err
		}
		l.batches = append(l.batches, b)
		at += size
	}
	return nil
}

// records are those of the n-th batch and of all behind it.
func (l *diskLog) records(n int) (records []*kgo.Record, err error) {
	for _, b := range l.batches[n:] {
		raw, err := kfake.BatchRecords(b.RecordBatch)
		if err != nil {
			return nil, err
		}
		for _, r := range raw {
			out := &kgo.Record{Topic: l.topic, Partition: l.partition, Offset: b.FirstOffset + int64(r.OffsetDelta), Key: r.Key, Value: r.Value,
				Timestamp: time.UnixMilli(b.MaxTimestamp), LeaderEpoch: b.PartitionLeaderEpoch} // of LogAppendTime
			for _, h := range r.Headers {
				out.Headers = append(out.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			records = append(records, out)
		}
	}
	return records, nil
}

// elect has the log end before its n-th batch, under a new leader epoch.
func (l *diskLog) elect(n int) {
	end := l.batches[n].FirstOffset
	l.batches = l.batches[:n]
	l.snapshot.HighWatermark, l.snapshot.LastStableOffset = end, end
	l.snapshot.Epoch++
}

// write writes the log in a way that kfake reads back: without any segment it would forget where a log ends, and its epoch.
func (l *diskLog) write() error {
	if err := l.cutSegments(); err != nil {
		return err
	}
	s := &l.snapshot
	if len(s.Segments) == 0 {
		if err := os.WriteFile(l.file(s.HighWatermark, ".dat"), nil, 0o600); err != nil {
			return err
		}
		s.Segments = []segmentOf{{BaseOffset: s.HighWatermark}}
	}
	return writeJSON(filepath.Join(l.dir, "snapshot.json"), s)
}

// cutSegments leaves of the files what the batches of the log take. The index of a segment kfake cuts itself.
func (l *diskLog) cutSegments() error {
	bases, err := l.segments()
	if err != nil {
		return err
	}
	l.snapshot.Segments = nil
	for _, base := range bases {
		s := segmentOf{BaseOffset: base}
		for _, b := range l.batches {
			if b.segment == base {
				s.Size, s.MaxEpoch = b.ends, b.PartitionLeaderEpoch
			}
		}
		if s.Size == 0 {
			if err := errors.Join(os.Remove(l.file(base, ".dat")), removeIfThere(l.file(base, ".idx"))); err != nil {
				return err
			}
			continue
		}
		if err := os.Truncate(l.file(base, ".dat"), s.Size); err != nil {
			return err
		}
		l.snapshot.Segments = append(l.snapshot.Segments, s)
	}
	return nil
}

// producerState is what kfake's seq_windows.json has of a producer in a partition.
type producerState struct {
	Producer  int64        `json:"pid"`
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Entries   [5]appending `json:"entries"`
	Count     uint8        `json:"count"`
	At        uint8        `json:"at"`
	Epoch     int16        `json:"epoch"`
	Seen      bool         `json:"seen"`
	NextSeq   int32        `json:"next_seq"`
}

type appending struct {
	FirstSeq int32 `json:"first_seq"`
	NextSeq  int32 `json:"next_seq"`
	Offset   int64 `json:"offset"`
}

// recoverProducers makes of a cut log what a broker knows of its producers, as a leader does: of the batches that it has.
func (l *diskLog) recoverProducers(dir string) error {
	var all struct {
		Version int             `json:"version"`
		Windows []producerState `json:"windows"`
	}
	file := filepath.Join(dir, "seq_windows.json")
	if err := readJSON(file, &all); err != nil {
		return err
	}
	all.Windows = slices.DeleteFunc(all.Windows, func(p producerState) bool { return p.Topic == l.topic && p.Partition == l.partition })
	known := map[int64]*producerState{}
	for _, b := range l.batches {
		if b.ProducerID < 0 {
			continue
		}
		p := known[b.ProducerID]
		if p == nil || p.Epoch != b.ProducerEpoch {
			p = &producerState{Producer: b.ProducerID, Topic: l.topic, Partition: l.partition, Epoch: b.ProducerEpoch, Seen: true}
			known[b.ProducerID] = p
		}
		p.NextSeq = b.FirstSequence + b.NumRecords
		p.Entries[p.At] = appending{b.FirstSequence, p.NextSeq, b.FirstOffset}
		p.At = (p.At + 1) % uint8(len(p.Entries))
		p.Count = min(p.Count+1, uint8(len(p.Entries)))
	}
	for _, p := range known {
		all.Windows = append(all.Windows, *p)
	}
	return writeJSON(file, all)
}

func removeIfThere(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func readJSON(file string, v any) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

func writeJSON(file string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o600)
}
