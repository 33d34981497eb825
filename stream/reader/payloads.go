package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/sink"
)

// PayloadsConfig describes a reader of payloads.
type PayloadsConfig struct {
	// Client has the options that every client shares: seed brokers, TLS, SASL.
	Client []kgo.Opt
	// ChunkBytes is how much one read asks for; a larger record comes whole. Default 256 KiB.
	ChunkBytes int
	// KeptBytes is how many bytes of chunks are kept for later loads, until nothing was loaded for a minute. Default 64 MiB.
	KeptBytes int
	// MaxRecordBytes is the largest record, with the decompressed record batch that it is in; default 64 MiB. A larger one counts as
	// lost.
	MaxRecordBytes int
	// LostAfter is for how long brokers must say that a topic does not exist or has another id, or that a log does not reach an offset,
	// before the payload counts as lost; default 10 s.
	LostAfter time.Duration
}

// LogPayloads loads events from the log through pointers. It implements [Payloads].
//
// Loads of one partition that wait at the same time are answered in one pass over it, in offset order. Chunks that were used lately are
// kept. So a claim with thousands of open actions reads its log once, also where other subscriptions read elsewhere. Safe for concurrent use.
type LogPayloads struct {
	cfg    PayloadsConfig
	cl     *kgo.Client
	chunks *chunkReader

	ctx  context.Context // ends the readers, by Close
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	queues map[ledger.Partition]*queue
	kept   []keptChunk // the least recently used first
	idle   *time.Timer // drops what is kept; nil: nothing ever was
	closed bool
}

// Payloads loads events through pointers. Each result is the event whose source, id and hash match the pointer, or an
// AttemptError of ClassPayload if the log no longer has it.
type Payloads interface {
	Load(ctx context.Context, p ledger.Pointer) (*schemas.Event, error)
}

var _ Payloads = (*LogPayloads)(nil)

// queue has the loads of one partition that wait. While any load waits, a goroutine reads.
type queue struct {
	waiting []*load
	reading bool
}

// keptChunk is a chunk that later loads of its partition are answered from.
type keptChunk struct {
	*chunk
	at     ledger.Partition
	weight int
}

// load is one Load call.
type load struct {
	offset int64
	ctx    context.Context
	got    chan answer // capacity 1
}

// answer is the answer to a load: a record, or why the log does not have it (absent), or why that is not known (err).
type answer struct {
	r      *kgo.Record
	absent error
	err    error
	kept   bool // of a chunk that was read before
}

// NewPayloads makes a LogPayloads. It connects with the first load, and must be closed.
func NewPayloads(cfg PayloadsConfig) (*LogPayloads, error) {
	if cfg.ChunkBytes == 0 {
		cfg.ChunkBytes = 256 << 10
	}
	if cfg.KeptBytes == 0 {
		cfg.KeptBytes = 64 << 20
	}
	if cfg.MaxRecordBytes == 0 {
		cfg.MaxRecordBytes = 64 << 20
	}
	if cfg.LostAfter == 0 {
		cfg.LostAfter = 10 * time.Second
	}
	if cfg.LostAfter < 0 || cfg.ChunkBytes < 0 || cfg.KeptBytes < 0 || cfg.MaxRecordBytes < 0 || cfg.MaxRecordBytes > 1<<30 {
		return nil, schemas.Errorf(schemas.Invalid, "open payloads", "a limit is out of range")
	}
	unpack, err := unpackOptions(cfg.MaxRecordBytes)
	if err != nil {
		return nil, fmt.Errorf("open payloads: %w", err)
	}
	cl, err := kgo.NewClient(append(append(unpack, cfg.Client...),
		kgo.BrokerMaxReadBytes(max(int32(cfg.MaxRecordBytes)+1<<20, 100<<20)))...)
	if err != nil {
		return nil, fmt.Errorf("open payloads: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &LogPayloads{cfg: cfg, cl: cl, chunks: newChunkReader(cl, cfg.ChunkBytes, cfg.LostAfter), ctx: ctx, stop: stop,
		queues: map[ledger.Partition]*queue{}}, nil
}

// Close ends the goroutines that read, and waits for them. Loads that wait fail, and later ones too.
func (l *LogPayloads) Close() {
	l.mu.Lock()
	l.closed = true
	if l.idle != nil {
		l.idle.Stop()
	}
	l.mu.Unlock()
	l.stop()
	l.wg.Wait()
	l.cl.Close()
}

var errPayloadsClosed = errors.New("payload reader is closed")

// Load returns the event that p points to, verified by topic id, source, id and body hash. If the log has another record there, or
// none, the error is a [sink.AttemptError] of class payload_lost. If the log cannot be read, Load tries again until ctx ends, and then
// returns the cause of that; if the brokers answer and cannot give this record, it returns an error after a few tries.
func (l *LogPayloads) Load(ctx context.Context, p ledger.Pointer) (*schemas.Event, error) {
	if p.Offset < 0 { // not in the log any more: see outOfLogFrom in stream/ledger
		return nil, lostPayload(p, "the log does not have its offset any more")
	}
	log := ledger.Partition{Topic: p.Topic, TopicID: p.TopicID, Number: p.Partition}
	for again := false; ; again = true {
		w := &load{offset: p.Offset, ctx: ctx, got: make(chan answer, 1)}
		if err := l.enqueue(log, w); err != nil {
			return nil, err
		}
		select {
		case a := <-w.got:
			e, err := verify(p, a)
			if err == nil || !a.kept || again {
				return e, err
			}
			l.forget(log) // it may have been cut since that chunk was read, and have grown over the same offsets
		case <-ctx.Done():
			return nil, fmt.Errorf("load payload at %s: %w", at(p), context.Cause(ctx))
		}
	}
}

// at returns a pointer's place in the log, for errors.
func at(p ledger.Pointer) string { return fmt.Sprintf("%s/%d@%d", p.Topic, p.Partition, p.Offset) }

// lostPayload returns an error of class payload_lost.
func lostPayload(p ledger.Pointer, format string, args ...any) error {
	return &sink.AttemptError{Class: sink.ClassPayload, Err: fmt.Errorf("payload at %s: "+format, append([]any{at(p)}, args...)...)}
}

// verify returns the event of an answer, if it is the one that p points to. The error is one of class payload_lost if the log has nothing
// there, or something else; any other leaves open what it has.
func verify(p ledger.Pointer, a answer) (*schemas.Event, error) {
	switch {
	case a.err != nil:
		return nil, fmt.Errorf("load payload at %s: %w", at(p), a.err)
	case a.absent != nil:
		return nil, lostPayload(p, "%w", a.absent)
	}
	e, err := record.Decode(a.r)
	if err != nil {
		return nil, lostPayload(p, "the record there is no event: %w", err)
	}
	if e.Key() != p.Key {
		return nil, lostPayload(p, "another event is there: %s of %s", e.ID, e.Source)
	}
	if e.Hash != p.Hash {
		return nil, lostPayload(p, "the event there has another body: %s, not %s", e.Hash, p.Hash)
	}
	e.Data = bytes.Clone(e.Data) // otherwise a lane that holds the event would hold the whole chunk
	return e, nil
}

// enqueue answers w from a kept chunk, or queues it and starts a reader if none runs.
func (l *LogPayloads) enqueue(at ledger.Partition, w *load) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errPayloadsClosed
	}
	for i, k := range slices.Backward(l.kept) {
		if k.at != at {
			continue
		}
		if a, ok := k.answer(w.offset); ok {
			a.kept = true
			l.kept = slices.Delete(l.kept, i, i+1)
			l.keep(k)
			w.got <- a
			return nil
		}
	}
	q := l.queues[at]
	if q == nil {
		q = &queue{}
		l.queues[at] = q
	}
	q.waiting = append(q.waiting, w)
	if !q.reading {
		q.reading = true
		l.wg.Go(func() { l.serve(at, q) })
	}
	return nil
}

// forget drops the chunks of a partition that were kept.
func (l *LogPayloads) forget(at ledger.Partition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = slices.DeleteFunc(l.kept, func(k keptChunk) bool { return k.at == at })
}

// serve reads for a queue until no load waits. Each chunk begins at the lowest offset that is waited for, and answers all loads that
// it covers.
func (l *LogPayloads) serve(at ledger.Partition, q *queue) {
	for {
		offset, ok := l.lowest(at, q)
		if !ok {
			return
		}
		c := l.chunks.chunk(l.ctx, at, offset)
		l.deliver(at, q, c)
	}
}

// lowest returns the lowest offset that a load waits for. If no load waits, it removes the queue and returns false: the caller must
// end then.
func (l *LogPayloads) lowest(at ledger.Partition, q *queue) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(w *load) bool { return w.ctx.Err() != nil })
	if len(q.waiting) == 0 {
		delete(l.queues, at)
		return 0, false
	}
	return slices.MinFunc(q.waiting, func(a, b *load) int { return int(max(-1, min(1, a.offset-b.offset))) }).offset, true
}

// deliver answers the loads that a chunk covers, and keeps the chunk for later loads unless it is too large.
func (l *LogPayloads) deliver(at ledger.Partition, q *queue, c *chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(w *load) bool {
		a, ok := c.answer(w.offset)
		if ok {
			w.got <- a
		}
		return ok
	})
	if weight := c.weight(); len(c.records) > 0 && weight <= maxKept*l.cfg.ChunkBytes {
		l.kept = slices.DeleteFunc(l.kept, func(k keptChunk) bool { return k.at == at && c.from <= k.from && k.to <= c.to })
		l.keep(keptChunk{c, at, weight})
	}
}

// maxKept times ChunkBytes is the largest chunk that is kept. A chunk may be larger than ChunkBytes: it may have one large record, or
// compressed ones.
const maxKept = 8

const (
	maxChunks = 256         // that are kept; each load looks through them
	keptFor   = time.Minute // how long without a load: a process at rest keeps none
)

// keep keeps a chunk as the one that was used last, and drops the least recently used of too many.
func (l *LogPayloads) keep(k keptChunk) {
	l.kept = append(l.kept, k)
	total := 0
	for i, k := range slices.Backward(l.kept) {
		if total += k.weight; total > l.cfg.KeptBytes || len(l.kept)-i > maxChunks {
			l.kept = slices.Delete(l.kept, 0, i+1)
			break
		}
	}
	if l.idle == nil {
		l.idle = time.AfterFunc(keptFor, l.dropKept)
	}
	l.idle.Reset(keptFor)
}

// dropKept drops all chunks.
func (l *LogPayloads) dropKept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = nil
}
