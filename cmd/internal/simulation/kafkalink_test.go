package simulation

import (
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// kafkaLink is a link to a broker. It knows requests from answers, so that an answer can be spoilt on its way.
type kafkaLink struct {
	*link

	mu      sync.Mutex
	pending map[int32]request // by correlation

	rest []byte // of the answer that is being read
}

type request struct{ key, version int16 }

// Write takes one request: kgo writes each at once.
func (l *kafkaLink) Write(b []byte) (int, error) {
	if len(b) >= 12 {
		l.mu.Lock()
		l.pending[int32(binary.BigEndian.Uint32(b[8:]))] = request{int16(binary.BigEndian.Uint16(b[4:])), int16(binary.BigEndian.Uint16(b[6:]))}
		l.mu.Unlock()
	}
	return l.link.Write(b)
}

func (l *kafkaLink) Read(b []byte) (int, error) {
	if len(l.rest) == 0 {
		if err := l.answer(); err != nil {
			return 0, err
		}
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// answer reads one whole answer.
func (l *kafkaLink) answer() error {
	var head [8]byte
	if _, err := io.ReadFull(l.link, head[:]); err != nil {
		return err
	}
	size, correlation := binary.BigEndian.Uint32(head[:]), int32(binary.BigEndian.Uint32(head[4:]))
	body := make([]byte, size-4)
	if _, err := io.ReadFull(l.link, body); err != nil {
		return err
	}
	l.mu.Lock()
	of := l.pending[correlation]
	delete(l.pending, correlation)
	l.mu.Unlock()
	l.travel()
	if of.key == int16(kmsg.Fetch) {
		body = l.net.spoilt(l.at.node, of.version, body)
		binary.BigEndian.PutUint32(head[:], uint32(len(body)+4))
	}
	l.rest = append(head[:], body...)
	return nil
}

// latency is what an answer takes on its way. Without any a client that asks again at once would ask for ever in one moment.
const latency = 500 * time.Microsecond

func (l *kafkaLink) travel() {
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.closed:
	}
}

// spoilt is an answer to a fetch as it arrives.
func (n *network) spoilt(node string, version int16, body []byte) []byte {
	n.mu.Lock()
	spoil := n.spoil[node]
	n.mu.Unlock()
	if spoil == nil {
		return body
	}
	resp := &kmsg.FetchResponse{Version: version}
	at := 0
	if resp.IsFlexible() {
		at = 1 // the header's tags: none
	}
	if resp.ReadFrom(body[at:]) != nil || !spoil(resp) {
		return body
	}
	return resp.AppendTo(append([]byte(nil), body[:at]...))
}

// spoilNext spoils a node's next answer with records, and no other.
func (n *network) spoilNext(node string, how func(*kmsg.FetchResponseTopicPartition) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spoil[node] = func(resp *kmsg.FetchResponse) bool {
		for i := range resp.Topics {
			for j := range resp.Topics[i].Partitions {
				if p := &resp.Topics[i].Partitions[j]; len(p.RecordBatches) > 0 && how(p) {
					n.stopSpoiling(node)
					return true
				}
			}
		}
		return false
	}
}

func (n *network) stopSpoiling(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.spoil, node)
}

// breakLast flips a byte in the last of several batches: what is before it comes beside an error.
func breakLast(p *kmsg.FetchResponseTopicPartition) bool {
	last, count := 0, 0
	for at := 0; at+61 <= len(p.RecordBatches); count++ {
		size := 12 + int(binary.BigEndian.Uint32(p.RecordBatches[at+8:]))
		if at+size > len(p.RecordBatches) {
			break
		}
		last = at
		at += size
	}
	if count < 2 {
		return false
	}
	p.RecordBatches[last+60] ^= 0x55 // of the count of records, which the checksum is over
	return true
}

// addError is a broker's error beside the records.
func addError(p *kmsg.FetchResponseTopicPartition) bool {
	p.ErrorCode = kerr.UnknownServerError.Code
	return true
}
