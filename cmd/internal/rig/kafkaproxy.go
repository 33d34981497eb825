package rig

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ProxiedBroker is a broker of one, as it is reached through a proxy: where it names its own address, clients get
// the proxy's, so that all of their connections go through it.
type ProxiedBroker struct {
	Broker
	*Proxy
}

// ThroughProxy puts a proxy in front of a broker.
func ThroughProxy(t T, b Broker) *ProxiedBroker {
	t.Helper()
	var p *Proxy
	ready := make(chan struct{})
	p = startProxy(t, b.Bootstrap(), func(client, server *link) {
		<-ready
		r := &rewriter{to: p.Addr(), pending: map[int32][2]int16{}}
		var both sync.WaitGroup
		both.Go(func() { r.frames(client, server, r.question) })
		r.frames(server, client, r.answer)
		both.Wait()
	})
	close(ready)
	return &ProxiedBroker{b, p}
}

// Bootstrap implements [Broker].
func (b *ProxiedBroker) Bootstrap() string { return b.Addr() }

// rewriter puts the proxy's address into answers. It fails loudly: what it does not understand ends the connection.
type rewriter struct {
	to string

	mu      sync.Mutex
	pending map[int32][2]int16 // key and version of what waits for its answer, by correlation id
}

// frames passes on whole messages, each changed, and the end of the connection, unless that hangs.
func (r *rewriter) frames(from, to *link, change func([]byte) ([]byte, error)) {
	defer func() {
		from.end()
		if !to.isHung() {
			to.Conn.Close()
		}
	}()
	var size [4]byte
	for {
		if _, err := io.ReadFull(from.Conn, size[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(from.Conn, b); err != nil {
			return
		}
		b, err := change(b)
		if err != nil {
			return
		}
		if _, err := to.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(b)), uint32(len(b))), b...)); err != nil {
			return
		}
	}
}

// tellsAddresses are the answers in which a broker says where brokers are.
var tellsAddresses = []int16{kmsg.Metadata.Int16(), kmsg.FindCoordinator.Int16(), kmsg.DescribeCluster.Int16()}

func (r *rewriter) question(b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, io.ErrUnexpectedEOF
	}
	key, version := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	for _, k := range tellsAddresses {
		if key == k {
			r.mu.Lock()
			r.pending[int32(binary.BigEndian.Uint32(b[4:]))] = [2]int16{key, version}
			r.mu.Unlock()
		}
	}
	return b, nil
}

func (r *rewriter) answer(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	id := int32(binary.BigEndian.Uint32(b))
	r.mu.Lock()
	request, ok := r.pending[id]
	delete(r.pending, id)
	r.mu.Unlock()
	if !ok {
		return b, nil
	}
	resp := kmsg.ResponseForKey(request[0])
	resp.SetVersion(request[1])
	body, head := b[4:], append([]byte(nil), b[:4]...)
	if resp.IsFlexible() {
		reader := kbin.Reader{Src: body}
		kmsg.SkipTags(&reader)
		if err := reader.Complete(); err != nil && reader.Src == nil {
			return nil, err
		}
		body, head = reader.Src, append(head, 0)
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, err
	}
	if err := r.rewrite(resp); err != nil {
		return nil, err
	}
	return resp.AppendTo(head), nil
}

func (r *rewriter) rewrite(resp kmsg.Response) error {
	host, text, err := net.SplitHostPort(r.to)
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return err
	}
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range resp.Brokers {
			resp.Brokers[i].Host, resp.Brokers[i].Port = host, int32(port)
		}
	case *kmsg.FindCoordinatorResponse:
		resp.Host, resp.Port = host, int32(port)
		for i := range resp.Coordinators {
			resp.Coordinators[i].Host, resp.Coordinators[i].Port = host, int32(port)
		}
	case *kmsg.DescribeClusterResponse:
		for i := range resp.Brokers {
			resp.Brokers[i].Host, resp.Brokers[i].Port = host, int32(port)
		}
	default:
		return fmt.Errorf("answer %d tells no addresses", resp.Key())
	}
	return nil
}
