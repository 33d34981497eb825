package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// standsStill are the kinds of attention of which something stands still until somebody comes.
var standsStill = []string{api.KindStopped, api.KindUnread, api.KindForgotten, api.KindKeys, api.KindClock, api.KindSpooling}

// process asks the running one what /readyz and `forebay attention` say.
func (d *doctor) process(ctx context.Context) (found []Finding) {
	p, err := d.Client.Ready(ctx)
	if err != nil {
		return []Finding{problem(d.URL, err.Error(), fmt.Sprintf("forebay serve -c %s; --url names another address; --pre looks before anything is started", d.Path))}
	}
	for _, c := range p.Checks {
		if !c.OK {
			found = append(found, problem(c.Name, "not ready: "+c.Error, "curl -s "+d.URL+"/readyz, until it is"))
		}
	}
	switch {
	case p.Ready:
		found = append(found, ok(d.URL, "ready: roles %s", strings.Join(sorted(p.Roles), ", ")))
	case len(found) == 0:
		found = append(found, problem(d.URL, "not ready, and it does not say why to this token", "--token-file with the token of somebody who may see all teams"))
	}
	a, err := d.Client.Attention(ctx, api.AttentionFilter{Limit: 1})
	if err != nil {
		return append(found, unknown("attention", err.Error()))
	}
	return append(found, d.waiting(a)...)
}

// waiting says what waits for an operator, and of which kinds nobody knows.
func (d *doctor) waiting(a *api.Attention) (found []Finding) {
	for _, n := range a.Counts {
		if n.Count == 0 && !n.More {
			continue
		}
		f := warning(n.Kind, fmt.Sprintf("%d wait for an operator", n.Count), "forebay attention --kind "+n.Kind+d.Asking)
		if n.More {
			f.Evidence = fmt.Sprintf("%d or more wait for an operator", n.Count)
		}
		if slices.Contains(standsStill, n.Kind) {
			f.Severity = Problem
		}
		found = append(found, f)
	}
	for _, u := range api.ByReason(a.Unknown) {
		found = append(found, unknown("attention", "what waits for an operator is not known, or not all, of "+u.Kinds+": "+u.Why))
	}
	if len(found) == 0 {
		found = append(found, ok("attention", "nothing waits for an operator"))
	}
	return found
}
