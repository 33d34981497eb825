package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
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
		r := &rewriter{to: func(string) string { return p.Addr() }, pending: map[int32]request{}}
		r.pass(client, server)
	})
	close(ready)
	return &ProxiedBroker{b, p}
}

// Bootstrap implements [Broker].
func (b *ProxiedBroker) Bootstrap() string { return b.Addr() }

// TappedKafka is an Apache Kafka with a proxy in front of each broker, which reads what clients are answered.
type TappedKafka struct {
	*KafkaCluster
	proxies []*Proxy // those of brokers 1, 2, 3
}

// Tap puts proxies in front of the brokers. see is called with answers to fetches and to produces, before the client has them, and with the
// number of the broker that has answered, and the client's id as its request has it; on many goroutines. It must not change the answer.
func Tap(t T, k *KafkaCluster, see func(broker int, clientID string, answer kmsg.Response)) *TappedKafka {
	t.Helper()
	tapped, addresses := &TappedKafka{KafkaCluster: k}, strings.Split(k.Bootstrap(), ",")
	ready := make(chan struct{}) // closed when there is a proxy for each
	to := func(address string) string { return tapped.proxies[slices.Index(addresses, address)].Addr() }
	for i, address := range addresses {
		tapped.proxies = append(tapped.proxies, startProxy(t, address, func(client, server *link) {
			<-ready
			r := &rewriter{to: to, pending: map[int32]request{}, see: func(clientID string, answer kmsg.Response) { see(i+1, clientID, answer) }}
			r.pass(client, server)
		}))
	}
	close(ready)
	return tapped
}

// Bootstrap implements [Broker].
func (k *TappedKafka) Bootstrap() string {
	var list []string
	for _, p := range k.proxies {
		list = append(list, p.Addr())
	}
	return strings.Join(list, ",")
}

// rewriter puts proxies' addresses into the responses on one connection. A message that it cannot parse ends the connection.
type rewriter struct {
	to  func(broker string) (proxy string)          // both host:port
	see func(clientID string, answer kmsg.Response) // nil: nobody wants to see fetches and produces

	mu      sync.Mutex
	pending map[int32]request // those whose response has to be read, by correlation id
}

type request struct {
	key, version int16
	clientID     string
}

// pass forwards both directions of a connection, until both have ended.
func (r *rewriter) pass(client, server *link) {
	var both sync.WaitGroup
	both.Go(func() { r.forward(client, server, r.request) })
	r.forward(server, client, r.response)
	both.Wait()
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

// seen has the keys of requests whose responses are seen.
var seen = []int16{kmsg.Fetch.Int16(), kmsg.Produce.Int16()}

// request notes a request whose response has to be read. It does not change the request.
func (r *rewriter) request(b []byte) ([]byte, error) {
	header := kbin.Reader{Src: b}
	key, version, id := header.Int16(), header.Int16(), header.Int32()
	clientID := header.NullableString()
	if err := header.Complete(); err != nil {
		return nil, err
	}
	if slices.Contains(namesBrokers, key) || r.see != nil && slices.Contains(seen, key) {
		req := request{key: key, version: version}
		if clientID != nil {
			req.clientID = *clientID
		}
		r.mu.Lock()
		r.pending[id] = req
		r.mu.Unlock()
	}
	return b, nil
}

// response returns a response with proxies' addresses in it, if the response has addresses.
func (r *rewriter) response(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, io.ErrUnexpectedEOF
	}
	id := int32(binary.BigEndian.Uint32(b))
	r.mu.Lock()
	req, ok := r.pending[id]
	delete(r.pending, id)
	r.mu.Unlock()
	if !ok {
		return b, nil
	}
	resp := kmsg.ResponseForKey(req.key)
	resp.SetVersion(req.version)
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
	if slices.Contains(seen, req.key) {
		r.see(req.clientID, resp)
		return b, nil
	}
	if err := r.rewrite(resp); err != nil {
		return nil, err
	}
	return resp.AppendTo(head), nil
}

// rewrite puts a proxy's address in place of every broker's.
func (r *rewriter) rewrite(resp kmsg.Response) error {
	put := func(host *string, port *int32) error {
		if *host == "" { // of an error, or of a coordinator in the list
			return nil
		}
		to, text, err := net.SplitHostPort(r.to(net.JoinHostPort(*host, strconv.Itoa(int(*port)))))
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(text, 10, 32)
		*host, *port = to, int32(n)
		return err
	}
	var errs []error
	switch resp := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range resp.Brokers {
			errs = append(errs, put(&resp.Brokers[i].Host, &resp.Brokers[i].Port))
		}
	case *kmsg.FindCoordinatorResponse:
		errs = append(errs, put(&resp.Host, &resp.Port))
		for i := range resp.Coordinators {
			errs = append(errs, put(&resp.Coordinators[i].Host, &resp.Coordinators[i].Port))
		}
	case *kmsg.DescribeClusterResponse:
		for i := range resp.Brokers {
			errs = append(errs, put(&resp.Brokers[i].Host, &resp.Brokers[i].Port))
		}
	default:
		return fmt.Errorf("answer %d tells no addresses", resp.Key())
	}
	return errors.Join(errs...)
}
