package cli

import (
	"io"
	"maps"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/sinks/redact"
)

// hiding is a stderr that shows nothing of what the configuration's references led to: the last line of defence, behind the
// parts that name no secret in the first place. Each Write is a line, or some.
type hiding struct {
	to io.Writer

	mu         sync.Mutex
	everywhere hidden
	ofTeams    map[string]*hidden // in what names the team
}

// hidden is some of what is hidden.
type hidden struct {
	names  map[string]string
	redact *redact.Redactor // nil: there is nothing to hide yet
}

func (h *hidden) add(names map[string]string) {
	all := map[string]string{}
	maps.Copy(all, h.names)
	maps.Copy(all, names)
	h.names, h.redact = all, redact.Named(all)
}

// hide adds what is hidden from now on. What an older configuration had stays hidden: it may still run.
func (h *hiding) hide(add config.Hidden) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.everywhere.add(add.Everywhere)
	for team, names := range add.OfTeams {
		if h.ofTeams == nil {
			h.ofTeams = map[string]*hidden{}
		}
		if h.ofTeams[team] == nil {
			h.ofTeams[team] = &hidden{}
		}
		h.ofTeams[team].add(names)
	}
}

// Write writes p without what is hidden, and reports that all of p is written.
func (h *hiding) Write(p []byte) (int, error) {
	text := p
	for _, clean := range h.of(p) {
		text = clean.Bytes(text)
	}
	if _, err := h.to.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// of returns what takes out of p what is hidden everywhere, and then what is of the teams that p names: acme in acme.triage, /acme/github
// and acme/pagers, not in acme-2.
func (h *hiding) of(p []byte) (list []*redact.Redactor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.everywhere.redact != nil {
		list = append(list, h.everywhere.redact)
	}
	if len(h.ofTeams) == 0 {
		return list
	}
	seen := map[*hidden]bool{}
	for from := 0; from < len(p); {
		to := from
		for to < len(p) && inName(p[to]) {
			to++
		}
		if team := h.ofTeams[string(p[from:to])]; team != nil && !seen[team] {
			seen[team] = true
			list = append(list, team.redact)
		}
		from = to + 1
	}
	return list
}

// inName reports whether names of teams have the character.
func inName(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' }
