package ingest

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Newcomers are the connections that have not sent the header of a request yet. One address may have AddressConnections of them: where
// another one comes, its oldest is closed. Whoever sends its header at once is never the oldest for long. Safe for concurrent use.
type Newcomers struct {
	limits Limits
	closed prometheus.Counter

	mu    sync.Mutex
	from  map[netip.Addr]*list.List // of net.Conn, the oldest first
	conns map[net.Conn]newcomer
}

type newcomer struct {
	from netip.Addr
	at   *list.Element
}

// NewNewcomers makes the limit of a listener. The limits must have their defaults.
func NewNewcomers(l Limits, r prometheus.Registerer) *Newcomers {
	n := &Newcomers{limits: l, from: map[netip.Addr]*list.List{}, conns: map[net.Conn]newcomer{}, closed: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "forebay", Subsystem: "ingest", Name: "connections_closed_total",
		Help: "Connections closed before their first request, since their address had newer ones and too many.",
	})}
	r.MustRegister(n.closed)
	return n
}

// ConnState is the server's hook.
func (n *Newcomers) ConnState(c net.Conn, s http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s != http.StateNew {
		n.forget(c)
		return
	}
	addr := peerOf(c.RemoteAddr().String())
	if n.limits.trusts(addr) { // it has senders behind it, whose requests count
		return
	}
	addr = counted64(addr)
	l := n.from[addr]
	if l == nil {
		l = list.New()
		n.from[addr] = l
	}
	n.conns[c] = newcomer{addr, l.PushBack(c)}
	if l.Len() > n.limits.AddressConnections {
		oldest := l.Front().Value.(net.Conn)
		n.forget(oldest)
		n.closed.Inc()
		_ = oldest.Close()
	}
}

func (n *Newcomers) forget(c net.Conn) {
	is, ok := n.conns[c]
	if !ok {
		return
	}
	delete(n.conns, c)
	if l := n.from[is.from]; l.Len() == 1 {
		delete(n.from, is.from)
	} else {
		l.Remove(is.at)
	}
}
