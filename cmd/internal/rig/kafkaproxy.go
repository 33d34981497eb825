package rig

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ProxiedBroker is a single broker behind a proxy. Where the broker's responses name its own address, the proxy puts in its own, so that
// all connections of clients go through the proxy.
type ProxiedBroker struct {
	Broker
	*Proxy
}

// ThroughProxy puts a proxy in front of a broker.
func ThroughProxy(t T, b Broker) *ProxiedBroker {
	t.Helper()
	var p *Proxy
	ready := make(chan struct{}) // closed when p is set
	p = startProxy(t, b.Bootstrap(), func(client, server *link) {
		<-ready
		r := &rewriter{to: p.Addr(), pending: map[int32][2]int16{}}
		var both sync.WaitGroup
		both.Go(func() { r.forward(client, server, r.request) })
		r.forward(server, client, r.response)
		both.Wait()
	})
	close(ready)
	return &ProxiedBroker{b, p}
}

// Bootstrap implements [Broker].
func (b *ProxiedBroker) Bootstrap() string { return b.Addr() }

// rewriter puts the proxy's address into the responses on one connection. A message that it cannot parse ends the connection.
type rewriter struct {
	to string // the proxy's address

	mu      sync.Mutex
	pending map[int32][2]int16 // key and version of requests whose response has to be rewritten, by correlation id
}

// forward forwards the messages from one end to the other, each changed by change. When from ends, it closes to, unless to hangs.
func (r *rewriter) forward(from, to *link, change func([]byte) ([]byte, error)) {
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

// namesBrokers has the keys of requests whose responses have addresses of brokers.
var namesBrokers = []int16{kmsg.Metadata.Int16(), kmsg.FindCoordinator.Int16(), kmsg.DescribeCluster.Int16()}

// request notes a request whose response has to be rewritten. It does not change the request.
func (r *rewriter) request(b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, io.ErrUnexpectedEOF
	}
	key, version := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	if slices.Contains(namesBrokers, key) {
		r.mu.Lock()
		r.pending[int32(binary.BigEndian.Uint32(b[4:]))] = [2]int16{key, version}
		r.mu.Unlock()
	}
	return b, nil
}

// response returns a response with the proxy's address in it, if the response has addresses.
func (r *rewriter) response(b []byte) ([]byte, error) {
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

// rewrite puts the proxy's address in place of every broker's.
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
