package reader

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
)

// chunk is what is known of the offsets [from, to) of a partition: their records, or why there are none.
type chunk struct {
	from, to int64
	records  []*kgo.Record // ascending
	absent   error         // set if the log does not have these offsets
	err      error         // set if they could not be read
}

// answer returns the answer to a load of an offset; false if the offset is not in the chunk's range, or c is nil.
func (c *chunk) answer(offset int64) (answer, bool) {
	if c == nil || offset < c.from || offset >= c.to {
		return answer{}, false
	}
	if c.absent != nil || c.err != nil {
		return answer{absent: c.absent, err: c.err}, true
	}
	i, ok := slices.BinarySearchFunc(c.records, offset, func(r *kgo.Record, o int64) int { return int(max(-1, min(1, r.Offset-o))) })
	if !ok {
		return answer{absent: errors.New("no record has this offset")}, true
	}
	return answer{r: c.records[i]}, true
}

// weight returns how many bytes the chunk's records have.
func (c *chunk) weight() (n int) {
	for _, r := range c.records {
		n += weight(r)
	}
	return n
}

// chunkReader fetches stretches of partitions from their leaders, without a consumer: every read is one request.
type chunkReader struct {
	cl          *kgo.Client
	chunkBytes  int              // how much one request asks for
	lostAfter   time.Duration    // see PayloadsConfig.LostAfter
	decomp      kgo.Decompressor // the client's, which is bounded by unpackOptions
	maxUnpacked int              // the bound, in bytes

	mu        sync.Mutex
	leaders   map[ledger.Partition]int32
	recreated map[incarnation]error // topics that certainly were created again: an id never comes back
}

// incarnation is a topic as long as it has one id.
type incarnation struct {
	topic string
	id    ledger.TopicID
}

func newChunkReader(cl *kgo.Client, chunkBytes int, lostAfter time.Duration) *chunkReader {
	return &chunkReader{cl: cl, chunkBytes: chunkBytes, lostAfter: lostAfter, leaders: map[ledger.Partition]int32{}, recreated: map[incarnation]error{},
		decomp: cl.OptValue(kgo.WithDecompressor).(kgo.Decompressor), maxUnpacked: cl.OptValue(kgo.MaxDecompressBatchBytes).(int)}
}

// chunk reads from offset on, and tries again until brokers answer with records, or say for lostAfter that the log does not have the
// offset: then the chunk is absent. Below the log's start, one answer is lostAfter. Any other they must repeat for c.lostAfter: a broker's
// metadata may be old, and a new leader may not yet show all records. If the brokers answer unreadableTries times that they cannot give the
// offset, the chunk has an err for that one: the loads of others go on. If ctx ends first, it has one for all offsets: every load that
// waits fails.
func (c *chunkReader) chunk(ctx context.Context, at ledger.Partition, offset int64) *chunk {
	var wait retry.Backoff
	var since time.Time // the first of the answers in a row that the log does not have the offset; zero: the last one said something else
	if err := c.knownRecreated(at); err != nil {
		return &chunk{from: 0, to: everything, absent: err}
	}
	unreadable := 0 // such answers in a row
	for {
		got, err := c.tryChunk(ctx, at, offset)
		if err == nil {
			return got
		}
		c.forgetLeader(at)
		if !Unreadable(err) {
			unreadable = 0
		} else if unreadable++; unreadable == unreadableTries {
			return &chunk{from: offset, to: offset + 1, err: err}
		}
		switch e, isAbsent := errors.AsType[*absentError](err); {
		case !isAbsent:
			since = time.Time{}
		case e.sure || (!since.IsZero() && time.Since(since) >= c.lostAfter):
			c.rememberRecreated(at, e)
			return &chunk{from: offset, to: e.to, absent: err}
		case since.IsZero():
			since = time.Now()
		}
		wait.Sleep(ctx)
		if ctx.Err() != nil {
			return &chunk{from: 0, to: everything, err: errors.Join(errPayloadsClosed, err)}
		}
	}
}

const everything = math.MaxInt64

// unreadableTries is how often an offset is asked for that the brokers answer for and cannot give.
const unreadableTries = 3

// unreadableError says that a broker answered and could not give the record of an offset: its batch is broken, or the broker's disk is. Others of
// the partition may be whole.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// Unreadable reports whether an error says that a broker answered and could not give a record.
func Unreadable(err error) bool {
	_, is := errors.AsType[*unreadableError](err)
	return is
}

// absentError says that a broker answered and has no records from the requested offset up to another.
type absentError struct {
	why       string
	to        int64
	sure      bool // one answer is enough
	recreated bool // the whole topic has another id
}

func (e *absentError) Error() string { return e.why }

// absent says that there are no records from the requested offset on, which a later answer may take back.
func absent(format string, args ...any) error {
	return &absentError{why: fmt.Sprintf(format, args...), to: everything}
}

// belowStart says that the log has no records below start.
func belowStart(start int64) error {
	return &absentError{why: fmt.Sprintf("the log starts at %d", start), to: start, sure: true}
}

// tryChunk finds the leader, fetches and decodes, once. The error is an [absentError] if the broker says that it does not have the offset.
func (c *chunkReader) tryChunk(ctx context.Context, at ledger.Partition, offset int64) (*chunk, error) {
	leader, err := c.leader(ctx, at)
	if err != nil {
		return nil, err
	}
	p, err := c.fetch(ctx, leader, at, offset, c.chunkBytes)
	if err != nil {
		return nil, err
	}
	switch err := kerr.ErrorForCode(p.ErrorCode); {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return nil, c.outOfRange(ctx, leader, at, offset, p.LogStartOffset)
	case errors.Is(err, kerr.UnknownTopicID):
		return nil, absent("the topic's id is not known")
	case errors.Is(err, kerr.UnknownServerError), errors.Is(err, kerr.CorruptMessage):
		return nil, &unreadableError{err}
	case err != nil:
		return nil, err
	}
	unpack := &unpacker{Decompressor: c.decomp, room: maxKept * c.chunkBytes}
	fp, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: offset, IsolationLevel: kgo.ReadCommitted(), Topic: at.Topic, Partition: at.Number,
	}, p, unpack, nil)
	large, tooLarge := errors.AsType[*kgo.ErrDecompressTooLarge](fp.Err)
	switch {
	case (tooLarge || unpack.full) && next > offset: // the records before the batch that does not fit
		return &chunk{from: offset, to: next, records: fp.Records}, nil
	case tooLarge:
		return nil, &absentError{to: large.NextOffset, sure: true, why: fmt.Sprintf("its batch, of offsets %d to %d, decompresses to more than the %d bytes that are read, or to more records than are",
			large.Offset, large.NextOffset-1, c.maxUnpacked)}
	case fp.Err != nil && len(fp.Records) == 0:
		return nil, &unreadableError{fp.Err}
	case next > offset:
		return &chunk{from: offset, to: next, records: fp.Records}, nil
	}
	return nil, c.whyEmpty(p, offset)
}

// unpacker decompresses the batches of one fetch until they fill its room, since a megabyte of the log may unpack to any size. The
// first batch is always decompressed: otherwise nothing would ever be read.
type unpacker struct {
	kgo.Decompressor
	room  int  // bytes that are left
	begun bool // a batch was decompressed
	full  bool // a batch was refused
}

var errFull = errors.New("the rest is left for the next read")

// Decompress implements [kgo.Decompressor]. It returns errFull once the room is used up.
func (u *unpacker) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if u.begun && u.room <= 0 {
		u.full = true
		return nil, errFull
	}
	out, err := u.Decompressor.Decompress(src, codec)
	u.begun = true
	u.room -= len(out)
	return out, err
}

// batch returns the bytes of the record batch that an offset is in, as they are in the log. It tries once.
func (c *chunkReader) batch(ctx context.Context, at ledger.Partition, offset int64) ([]byte, error) {
	leader, err := c.leader(ctx, at)
	if err != nil {
		return nil, err
	}
	p, err := c.fetch(ctx, leader, at, offset, c.chunkBytes)
	if err != nil {
		return nil, err
	}
	const head = 12 // the first offset, and the length of what follows these 12 bytes
	b := p.RecordBatches
	if len(b) < head {
		return nil, fmt.Errorf("no batch: %w", cmp.Or(kerr.ErrorForCode(p.ErrorCode), errors.New("the broker returned nothing")))
	}
	n := head + int(int32(binary.BigEndian.Uint32(b[8:])))
	if n < head || n > len(b) { // the first batch comes whole (KIP-74)
		return nil, fmt.Errorf("no batch: %d of %d bytes", len(b), n)
	}
	return slices.Clone(b[:n]), nil
}

// whyEmpty returns the error for an answer without records: an [absentError] if the offset is outside the log, otherwise that the broker
// returned nothing.
func (c *chunkReader) whyEmpty(p *kmsg.FetchResponseTopicPartition, offset int64) error {
	if p.LogStartOffset > offset {
		return belowStart(p.LogStartOffset)
	}
	if offset >= p.HighWatermark {
		return absent("the log ends at %d", p.HighWatermark)
	}
	return errors.New("the broker returned nothing")
}

// fetch sends one fetch request for a partition to its leader, and returns what the broker answered for the partition: size bytes at the
// most, or the first batch. If size is 0, the broker waits for nothing that it does not have.
func (c *chunkReader) fetch(ctx context.Context, leader int32, at ledger.Partition, offset int64, size int) (*kmsg.FetchResponseTopicPartition, error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, int32(min(size, 1)), int32(size)
	req.IsolationLevel = 1
	req.SessionEpoch = -1 // no fetch session
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = at.Topic, at.TopicID // by name or by id, as the version has it
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = at.Number, offset, int32(size), -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	got, err := c.cl.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	resp := got.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, errors.New("the broker did not answer for the partition")
	}
	return &resp.Topics[0].Partitions[0], nil
}

// leader returns the broker that leads a partition, remembered or asked for. Errors as of leaderIn.
func (c *chunkReader) leader(ctx context.Context, at ledger.Partition) (int32, error) {
	c.mu.Lock()
	leader, ok := c.leaders[at]
	c.mu.Unlock()
	if ok {
		return leader, nil
	}
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = new(at.Topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return 0, err
	}
	if leader, err = leaderIn(resp, at); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaders[at] = leader
	return leader, nil
}

// leaderIn returns the broker that leads a partition by an answer of metadata. The error is an [absentError] if the topic or the partition
// does not exist, or the topic's id is another one.
func leaderIn(resp *kmsg.MetadataResponse, at ledger.Partition) (int32, error) {
	for _, t := range resp.Topics {
		if t.Topic == nil || *t.Topic != at.Topic {
			continue
		}
		err := kerr.ErrorForCode(t.ErrorCode)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return 0, absent("topic %s does not exist", at.Topic)
		}
		if err != nil {
			return 0, err
		}
		if t.TopicID != at.TopicID {
			return 0, &absentError{to: everything, recreated: true, why: fmt.Sprintf("topic %s was recreated: its id is %x, not %x", at.Topic, t.TopicID[:], at.TopicID[:])}
		}
		for _, p := range t.Partitions {
			if p.Partition == at.Number {
				return p.Leader, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return 0, absent("partition %s/%d does not exist", at.Topic, at.Number)
}

// knownRecreated returns the [absentError] of a topic that certainly was created again, nil of others.
func (c *chunkReader) knownRecreated(at ledger.Partition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recreated[incarnation{at.Topic, at.TopicID}]
}

// rememberRecreated keeps e if it says that the topic with the id of at is gone, and another has its name: later reads of payloads of that topic
// fail with e at once, without a request to Kafka.
func (c *chunkReader) rememberRecreated(at ledger.Partition, e *absentError) {
	if !e.recreated {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recreated[incarnation{at.Topic, at.TopicID}] = e
}

func (c *chunkReader) forgetLeader(at ledger.Partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leaders, at)
}
