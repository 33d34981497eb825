package guard

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// zone is a DNS server on loopback over UDP. Each question for a name's IPv4 addresses is answered with the next of its
// answers, the last of them ever after, and the one for IPv6 with the same; a name that it does not have does not exist.
type zone struct {
	answers map[string][]string // by name with its dot, "*" for all; an answer is addresses with commas between
	conn    net.PacketConn

	mu    sync.Mutex
	turns map[string]int // by name and type of the question
	asked atomic.Int32   // questions for IPv4 addresses
}

func newZone(t *testing.T, answers map[string][]string) *zone {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	z := &zone{answers: answers, conn: conn, turns: map[string]int{}}
	done := make(chan struct{})
	go func() { defer close(done); z.serve() }()
	t.Cleanup(func() { conn.Close(); <-done })
	return z
}

// dnsServer is a zone that answers for every name.
func dnsServer(t *testing.T, answers ...string) (*net.Resolver, *atomic.Int32) {
	t.Helper()
	z := newZone(t, map[string][]string{"*": answers})
	return z.resolver(), &z.asked
}

// resolver asks this zone and nobody else.
func (z *zone) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", z.conn.LocalAddr().String())
	}}
}

func (z *zone) serve() {
	buf := make([]byte, 1500)
	for {
		_, from, err := z.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = z.conn.WriteTo(z.reply(buf), from)
	}
}

// The types of questions; see RFC 1035 and 3596.
const (
	typeA    = 1
	typeAAAA = 28
)

// reply answers a message with one question; RFC 1035, section 4.
func (z *zone) reply(ask []byte) []byte {
	name, i := "", 12
	for ask[i] != 0 {
		name += string(ask[i+1:i+1+int(ask[i])]) + "."
		i += int(ask[i]) + 1
	}
	kind := binary.BigEndian.Uint16(ask[i+1:])
	addrs, known := z.next(name, kind)
	reply := append([]byte{}, ask[0], ask[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0)
	if !known {
		reply[3] |= 3 // no such name
	}
	reply = append(reply, ask[12:i+5]...)
	for _, addr := range addrs {
		data := addr.AsSlice()
		reply[7]++
		reply = append(reply, 0xc0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(data))) // TTL 0: ask again
		reply = append(reply, data...)
	}
	return reply
}

// next is what a question is answered with.
func (z *zone) next(name string, kind uint16) (addrs []netip.Addr, known bool) {
	list, known := z.answers[name]
	if !known {
		list, known = z.answers["*"]
	}
	if !known {
		return nil, false
	}
	if kind == typeA {
		z.asked.Add(1)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	key := name + string(rune(kind))
	turn := min(z.turns[key], len(list)-1)
	z.turns[key]++
	for text := range strings.SplitSeq(list[turn], ",") {
		if addr := netip.MustParseAddr(text); addr.Is4() && kind == typeA || addr.Is6() && kind == typeAAAA {
			addrs = append(addrs, addr)
		}
	}
	return addrs, true
}
