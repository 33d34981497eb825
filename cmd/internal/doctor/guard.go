package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/stream/sink"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// caller is something whose URL a file has, and the networks that it may reach although they are not public.
type caller struct {
	path    string
	allowed []netip.Prefix
}

// callers lists what calls addresses that the files name.
func (d *doctor) callers() (list []caller) {
	for _, dest := range d.parsed.AllDestinations() {
		list = append(list, caller{dest.Path(), dest.AllowNetworks})
	}
	for _, team := range sorted(d.parsed.Teams) {
		for _, name := range sorted(d.parsed.Teams[team].Sources) {
			s, path := d.parsed.Teams[team].Sources[name], "teams."+team+".sources."+name
			if s.Backfill != nil {
				list = append(list, caller{path + ".backfill", s.Backfill.AllowNetworks})
			}
			if s.Thin != nil {
				list = append(list, caller{path + ".thin", s.Thin.AllowNetworks})
			}
		}
	}
	return list
}

// mustNot are addresses that no URL of a file may lead to unless its allow_networks say so: one of each private range, and those at
// which clouds tell their machines' credentials.
var mustNot = []struct {
	what string
	addr netip.Addr
}{
	{"loopback", netip.MustParseAddr("127.0.0.1")}, {"loopback", netip.MustParseAddr("::1")},
	{"private", netip.MustParseAddr("10.0.0.1")}, {"private", netip.MustParseAddr("172.16.0.1")}, {"private", netip.MustParseAddr("192.168.0.1")}, {"private", netip.MustParseAddr("fd00::1")},
	{"metadata", netip.MustParseAddr("169.254.169.254")}, {"metadata", netip.MustParseAddr("168.63.129.16")}, {"metadata", netip.MustParseAddr("fd00:ec2::254")},
}

// guard has the guarded client, as each caller of the file has it, try to reach addresses that it must refuse. Nothing is sent: a listener
// of this check's own is what loopback would lead to, and other addresses lead to no socket.
func (d *doctor) guard(ctx context.Context) (found []Finding) {
	if d.parsed == nil {
		return d.notRead()
	}
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return []Finding{unknown("", "not made: no listener to try on: "+err.Error(), "")}
	}
	defer own.Close()
	port := netip.MustParseAddrPort(own.Addr().String()).Port()
	list := d.callers()
	refused := 0
	for _, c := range append([]caller{{path: "without allow_networks"}}, list...) {
		n, bad := tryAll(ctx, c, port)
		refused, found = refused+n, append(found, bad...)
		found = append(found, d.opened(c)...)
	}
	for _, p := range d.parsed.TeamsDir.References.Networks {
		if p.Contains(netip.MustParseAddr("169.254.169.254")) {
			found = append(found, problem("teams_dir.references.networks", p.String()+" lets teams' files allow the address at which clouds tell credentials", "list the networks that are meant, without 169.254.0.0/16"))
		}
	}
	if len(found) == 0 {
		found = append(found, ok("", "%d tries of %d callers to reach loopback, private and metadata addresses were refused", refused, len(list)+1))
	}
	return found
}

var errReached = errors.New("the guard lets it through")

// tryAll tries the addresses that a caller's networks do not have. It counts those that are refused.
func tryAll(ctx context.Context, c caller, port uint16) (refused int, found []Finding) {
	sockets, err := guard.New(guard.Config{AllowNetworks: c.allowed, Timeout: 2 * time.Second})
	if err != nil {
		return 0, []Finding{problem(c.path, err.Error(), "")}
	}
	nowhere, err := guard.New(guard.Config{AllowNetworks: c.allowed, Timeout: 2 * time.Second, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errReached }})
	if err != nil {
		return 0, []Finding{problem(c.path, err.Error(), "")}
	}
	for _, m := range mustNot {
		if slices.ContainsFunc(c.allowed, func(p netip.Prefix) bool { return p.Contains(m.addr) }) {
			continue
		}
		client, at := nowhere, netip.AddrPortFrom(m.addr, 80)
		if m.addr == netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
			client, at = sockets, netip.AddrPortFrom(m.addr, port)
		}
		conn, err := client.Dial(ctx, "tcp", at.String(), false)
		if conn != nil {
			conn.Close()
		}
		if attempt, ok := errors.AsType[*sink.AttemptError](err); ok && attempt.Class == sink.ClassForbidden {
			refused++
			continue
		}
		found = append(found, problem(c.path, fmt.Sprintf("the guard does not refuse %s (%s): %v", m.addr, m.what, err), "report this: it is a fault of this binary"))
	}
	return refused, found
}

// opened says which addresses a caller may reach that are worth a second look.
func (d *doctor) opened(c caller) (found []Finding) {
	fix := c.path + ".allow_networks: list the addresses that are meant, and no more"
	allows := func(what string) (list []string) {
		for _, m := range mustNot {
			if m.what == what && slices.ContainsFunc(c.allowed, func(p netip.Prefix) bool { return p.Contains(m.addr) }) {
				list = append(list, m.addr.String())
			}
		}
		return list
	}
	if list := allows("metadata"); len(list) > 0 {
		found = append(found, problem(c.path, "allow_networks has "+strings.Join(list, ", ")+", where clouds tell their machines' credentials", fix))
	}
	if list := allows("loopback"); len(list) > 0 && !d.parsed.Operator.HasTokens() {
		found = append(found, warning(c.path, "allow_networks has "+strings.Join(list, ", ")+": whoever writes this URL can ask the operator listener, which asks nobody for a token", fix+"; or operator: {auth: tokens}"))
	}
	return found
}

// reachAtOnce is how many destinations are asked at once.
const reachAtOnce = 8

// destinations has each destination's sink say whether that can be reached.
func (d *doctor) destinations(ctx context.Context) []Finding {
	if d.parsed == nil {
		return d.notRead()
	}
	if !d.has(config.RoleStream) {
		return []Finding{unknown("", "not made: destinations are of the role stream", "")}
	}
	list := d.parsed.AllDestinations()
	errs := make([]error, len(list))
	turns := make(chan struct{}, reachAtOnce) // never closed
	var all sync.WaitGroup
	for i, dest := range list {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			ctx, cancel := context.WithTimeout(ctx, d.Within/4)
			defer cancel()
			errs[i] = app.Reach(ctx, d.parsed, dest)
		})
	}
	all.Wait()
	var found []Finding
	for i, dest := range list {
		if errs[i] != nil {
			found = append(found, problem(dest.Path(), errs[i].Error(), "fix "+dest.Path()+", or what it leads to; forebay destinations get "+dest.FullName()+d.Asking))
		}
	}
	if len(found) == 0 {
		found = append(found, ok("", "%d destinations can be reached, as far as their types can tell; no action was run", len(list)))
	}
	return found
}
