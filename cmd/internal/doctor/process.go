package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// listen tries whether a process that is not started yet can listen on its addresses: a check of --pre. An address with a reference that
// was not resolved is left out.
func (d *doctor) listen(ctx context.Context) (found []Finding) {
	if d.parsed == nil {
		return d.notRead()
	}
	var free []string
	l := d.parsed.Listen
	for _, at := range []struct {
		key, address string
		of           config.Role
	}{{"intake", l.Intake, config.RoleIntake}, {"operator", l.Operator, ""}, {"health", l.Health, ""}, {"agents", l.Agents, config.RoleStream}} {
		if at.address == "" || (at.of != "" && !d.has(at.of)) || strings.Contains(at.address, "${") {
			continue
		}
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", at.address)
		if err != nil {
			found = append(found, problem("listen."+at.key, err.Error(), "stop what has "+at.address+" (without --pre a running process is asked), or write another address as listen."+at.key))
			continue
		}
		listener.Close()
		free = append(free, at.address)
	}
	if len(found) == 0 {
		found = append(found, ok("", "free: %s", strings.Join(free, ", ")))
	}
	return found
}

// process asks the running one how it is, and what waits for an operator.
func (d *doctor) process(ctx context.Context) (found []Finding) {
	p, err := d.Client.Ready(ctx)
	if err != nil {
		return []Finding{problem(d.URL, err.Error(), fmt.Sprintf("forebay serve -c %s; --url names another address; --pre looks before anything is started", d.Path))}
	}
	var bad []string
	for _, c := range p.Checks {
		if !c.OK {
			bad = append(bad, c.Name)
			found = append(found, problem(c.Name, "not ready: "+c.Error, "curl -s "+d.URL+"/readyz, until it is"))
		}
	}
	switch {
	case !p.Ready && len(bad) == 0:
		found = append(found, problem(d.URL, "not ready, and it does not say why to this token", "--token-file with the token of somebody who may see all teams"))
	case p.Ready:
		found = append(found, ok(d.URL, "ready: roles %s", strings.Join(sorted(p.Roles), ", ")))
	}
	return append(found, d.waiting(ctx)...)
}

// notCounted says of which kinds the process does not know what waits for an operator, one finding for each reason.
func notCounted(kinds []api.AttentionUnknown) (found []Finding) {
	for _, u := range api.ByReason(kinds) {
		found = append(found, unknown("attention", "what waits for an operator is not known, or not all, of "+u.Kinds+": "+u.Why, ""))
	}
	return found
}

// waiting says what waits for an operator.
func (d *doctor) waiting(ctx context.Context) (found []Finding) {
	a, err := d.Client.Attention(ctx, api.AttentionFilter{Limit: 1})
	if err != nil {
		return []Finding{unknown("attention", err.Error(), "")}
	}
	for _, n := range a.Counts {
		if n.Count == 0 && !n.More {
			continue
		}
		f := warning(n.Kind, fmt.Sprintf("%d wait for an operator", n.Count), "forebay attention --kind "+n.Kind+d.Asking)
		if n.More {
			f.Evidence = fmt.Sprintf("%d or more wait for an operator", n.Count)
		}
		if slices.Contains([]string{api.KindStopped, api.KindUnread, api.KindKeys, api.KindClock}, n.Kind) { // what stands still until somebody comes
			f.Severity = Problem
		}
		found = append(found, f)
	}
	found = append(found, notCounted(a.Unknown)...)
	if len(found) == 0 {
		found = append(found, ok("attention", "nothing waits for an operator"))
	}
	return found
}
