package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// pauseKey returns the name under which the ledger keeps the pause of a scope.
func pauseKey(scope, name string) string {
	switch scope {
	case api.PauseTeam:
		return ledger.TeamSubscriptions(name)
	case api.PauseAgent:
		return ledger.AgentDestinations(name)
	}
	return ledger.AllSubscriptions
}

// scopeOf is the opposite of pauseKey; ok is false for the pause of a single subscription or destination.
func scopeOf(key string) (scope, name string, ok bool) {
	team, isTeam := strings.CutSuffix(key, strings.TrimPrefix(ledger.TeamSubscriptions("x"), "x"))
	agent, isAgent := strings.CutPrefix(key, ledger.AgentDestinations(""))
	switch {
	case key == ledger.AllSubscriptions:
		return api.PauseAll, "", true
	case isAgent:
		return api.PauseAgent, agent, true
	case isTeam:
		return api.PauseTeam, team, true
	}
	return "", "", false
}

// resumeCommand returns the command that ends a pause of a subscription or a wider one, by the name that the ledger has of it.
func resumeCommand(key string) string {
	switch scope, name, ok := scopeOf(key); {
	case !ok:
		return "forebay subscriptions resume " + key + " --reason TEXT"
	case scope == api.PauseAll:
		return "forebay resume --all --reason TEXT"
	default:
		return "forebay resume --" + scope + " " + name + " --reason TEXT"
	}
}

// Pauses lists the pauses of all, of teams and of agents that stand.
func (s *steeringAPI) Pauses(ctx context.Context) (items []api.ScopeItem, err error) {
	l, err := s.a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	standing, err := standingPauses(ctx, l)
	if err != nil {
		return nil, err
	}
	for key, p := range standing {
		if scope, name, ok := scopeOf(key); ok {
			items = append(items, api.ScopeItem{Scope: scope, Name: name, Teams: teamsOfScope(s.a.file(), scope, name), Paused: pauseItem(p), Elsewhere: outsideScope(s.a.file(), scope, name)})
		}
	}
	order := []string{api.PauseAll, api.PauseTeam, api.PauseAgent}
	slices.SortFunc(items, func(a, b api.ScopeItem) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Scope), slices.Index(order, b.Scope)), cmp.Compare(a.Name, b.Name))
	})
	return items, nil
}

// standingPauses reads all pauses that stand, by the names that the ledger has of them.
func standingPauses(ctx context.Context, l *ledger.Ledger) (map[string]ledger.Pause, error) {
	subscriptions, err := l.Subscriptions(ctx)
	if err != nil {
		return nil, err
	}
	destinations, err := l.Destinations(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]ledger.Pause{}
	for key, s := range subscriptions {
		if s.Paused != nil {
			all[key] = *s.Paused
		}
	}
	for key, s := range destinations {
		if s.Paused != nil {
			all[key] = *s.Paused
		}
	}
	return all, nil
}

// PauseScope pauses all subscriptions, those of a team, or the destinations of an agent. If that is paused already, the error says by whom.
func (s *steeringAPI) PauseScope(ctx context.Context, scope, name string, r api.PauseRequest) (*api.ScopeItem, error) {
	key := pauseKey(scope, name)
	return s.changeScope(ctx, scope, name, r.DryRun, func(l *ledger.Ledger, now *ledger.Pause) error {
		return pauseOnce(strings.TrimSpace(scope+" "+name), now, r, func(by string) (ledger.Pause, error) {
			if scope == api.PauseAgent {
				return l.PauseDestination(ctx, key, ledger.Pause{By: by, Reason: r.Reason})
			}
			return l.PauseSubscription(ctx, key, by, r.Reason)
		})
	})
}

// ResumeScope ends such a pause. If there is none, that is an error of kind Conflict.
func (s *steeringAPI) ResumeScope(ctx context.Context, scope, name string, r api.PauseRequest) (*api.ScopeItem, error) {
	key, by := pauseKey(scope, name), cmp.Or(r.By, "unknown")
	return s.changeScope(ctx, scope, name, r.DryRun, func(l *ledger.Ledger, now *ledger.Pause) error {
		if now == nil {
			return schemas.Errorf(schemas.Conflict, "", "%s is not paused as a whole; `forebay attention` lists what is", strings.TrimSpace(scope+" "+name))
		}
		if r.DryRun {
			return nil
		}
		var err error
		if scope == api.PauseAgent {
			_, err = l.ResumeDestination(ctx, key, by, r.Reason)
		} else {
			_, err = l.ResumeSubscription(ctx, key, by, r.Reason)
		}
		return err
	})
}

// changeScope calls do with the pause that the ledger has of a scope, nil if it is not paused, and returns the scope as it is then. Without dryRun
// this process follows the ledger at once; the other processes do within a second.
func (s *steeringAPI) changeScope(ctx context.Context, scope, name string, dryRun bool, do func(l *ledger.Ledger, now *ledger.Pause) error) (*api.ScopeItem, error) {
	l, err := s.a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	standing, err := standingPauses(ctx, l)
	if err != nil {
		return nil, err
	}
	var now *ledger.Pause
	if p, ok := standing[pauseKey(scope, name)]; ok {
		now = &p
	} else if err := s.knows(scope, name); err != nil { // a pause that stands is ended under a name that the file has no more, too
		return nil, err
	}
	if err := do(l, now); err != nil {
		return nil, err
	}
	if !dryRun {
		if err := s.a.stream.pauses.sync(ctx); err != nil {
			return nil, err
		}
		if err := s.a.stream.keeper.Sync(ctx); err != nil {
			return nil, err
		}
		if standing, err = standingPauses(ctx, l); err != nil {
			return nil, err
		}
	}
	item := &api.ScopeItem{Scope: scope, Name: name, Teams: teamsOfScope(s.a.file(), scope, name), Elsewhere: outsideScope(s.a.file(), scope, name)}
	if p, ok := standing[pauseKey(scope, name)]; ok {
		item.Paused = pauseItem(p)
	}
	return item, nil
}

// knows returns an error of kind NotFound for a team or an agent that the configuration does not have.
func (s *steeringAPI) knows(scope, name string) error {
	var known []string
	switch scope {
	case api.PauseTeam:
		known = sortedKeys(s.a.file().Teams)
	case api.PauseAgent:
		for _, d := range s.a.file().AllDestinations() {
			known = append(known, cmp.Or(d.Agent, d.Name))
		}
	default:
		return nil
	}
	if slices.Contains(known, name) {
		return nil
	}
	return schemas.Errorf(schemas.NotFound, "", "the configuration has no %s %q%s", scope, name, names.DidYouMean(name, known))
}

// scopeRow returns a pause of all, of a team or of an agent as the list of what waits has it. It is also of the teams whose work it stops.
func scopeRow(scope, name, key string, p *ledger.Pause, file *config.Config) api.AttentionItem {
	what := map[string]string{api.PauseAll: "all subscriptions", api.PauseTeam: "all subscriptions of team " + name, api.PauseAgent: "what goes to agent " + name}[scope]
	item := api.AttentionItem{Kind: api.KindPausedScope, ID: strings.TrimSpace(scope + " " + name), Since: timeOrNull(p.At), Command: resumeCommand(key),
		Detail: fmt.Sprintf("%s: nothing is attempted of %s: %s", p.By, what, p.Reason)}
	if scope == api.PauseTeam {
		item.Team = name
	} else {
		item.Teams = teamsOfScope(file, scope, name)
	}
	return item
}

// teamsOfScope returns the teams whose work a pause stops, of an agent those that may use a destination of it; "*": all.
func teamsOfScope(file *config.Config, scope, name string) (teams []string) {
	switch scope {
	case api.PauseAll:
		return []string{"*"}
	case api.PauseTeam:
		return []string{name}
	}
	for _, d := range file.AllDestinations() {
		switch {
		case cmp.Or(d.Agent, d.Name) != name:
		case d.Team != "":
			teams = append(teams, d.Team)
		default:
			teams = append(teams, d.Teams...)
		}
	}
	slices.Sort(teams)
	return slices.Compact(teams)
}

// outsideScope returns the subscriptions that a pause does not stop although it names them, TEAM.SUBSCRIPTION: their ledger is another process's.
func outsideScope(file *config.Config, scope, name string) (list []string) {
	if scope != api.PauseAgent {
		return file.Elsewhere(name)
	}
	for _, d := range file.AllDestinations() {
		if cmp.Or(d.Agent, d.Name) == name {
			list = append(list, file.UsedElsewhere(d)...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
