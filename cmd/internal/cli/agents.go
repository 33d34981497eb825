package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/agents"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// agentFlags say where agents are: in a topic of their team, for which no process is asked.
type agentFlags struct {
	fileFlags
	Data string `placeholder:"DIR" help:"Where forebay dev keeps its data, if --data said so."`
	Team string `help:"The team. Not needed where one alone has sources that take such keys."`

	noLedger error // why the file's ledger is not known here; nil: it is
}

// agentItem is an agent as commands print it.
type agentItem = agents.Agent

// with calls do with the topics of agents and the team that is meant.
func (f *agentFlags) with(e *env, do func(ctx context.Context, t *agents.Topics, team string, cfg *config.Config) error) error {
	cfg, stop, err := f.supplied(e, f.Data, config.RoleTopics, config.RoleTokens)
	if f.noLedger = err; err != nil { // keys are made and end without one
		cfg, stop, err = f.supplied(e, f.Data, config.RoleTopics)
	}
	if err != nil {
		return err
	}
	defer stop()
	teams, team := cfg.AgentTeams(), f.Team
	switch {
	case len(teams) == 0:
		return schemas.Errorf(schemas.NotFound, "", "no source of this file takes keys of agents: one with preset: agent does, and needs no secrets")
	case team == "" && len(teams) > 1:
		return usageError("several teams have sources that take keys of agents: say --team, one of %s", strings.Join(teams, ", "))
	case team == "":
		team = teams[0]
	case !slices.Contains(teams, team):
		if err := names.Team(team, teams); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	return do(ctx, agents.NewTopics(app.KafkaOptions(cfg, config.RoleTopics)), team, cfg)
}

// audited makes a change of an agent, and keeps it in the audit of the file's ledger. An agent's key is in Kafka alone: where that ledger cannot be
// asked, the change is made all the same, and the user is told that the audit does not have it.
func (f *agentFlags) audited(e *env, cfg *config.Config, c ledger.Change, do func() (agentItem, error)) error {
	var failed error
	begun := false
	err := f.withLedger(e, cfg, func(l *ledger.Ledger) error {
		return audited(e, l, c, nil, func() (agentItem, error) {
			begun = true
			var item agentItem
			item, failed = do()
			return item, failed
		})
	})
	if !begun {
		_, failed = do()
	}
	if err != nil && failed == nil {
		fmt.Fprintf(e.Stderr, "the audit does not have this change, only the record of the agent does (`forebay agents list -o wide`): %s\n", plain(err.Error()))
	}
	return failed
}

// withLedger calls do with the ledger of the file.
func (f *agentFlags) withLedger(e *env, cfg *config.Config, do func(l *ledger.Ledger) error) error {
	if f.noLedger != nil {
		return f.noLedger
	}
	of := cfg.Ledger()
	if of.OfTeam {
		return schemas.Errorf(schemas.Conflict, "", "the ledger %s is named in a team's file", of.Path)
	}
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	l, err := ledger.Open(ctx, ledger.Config{URL: of.Postgres.URL, Key: of.Path + ".url", Schema: of.Postgres.Schema, Logger: e.log})
	if err != nil {
		return err
	}
	defer l.Close()
	return do(l)
}

type agentsCreateCmd struct {
	agentFlags
	Name    string   `arg:"" help:"What it is called, such as planner: the sender of its events. No other agent of the team gets that name, even after its key was revoked."`
	Sources []string `placeholder:"SOURCE,..." help:"The sources that it may post to. Not needed where the team has one."`
	Types   []string `placeholder:"TYPE,..." help:"The types of events that it may send, * for any text; others are answered 403. Default: all."`
	Reason  string   `placeholder:"TEXT" help:"Why; kept with who said so and when."`
	DryRun  bool     `help:"Check what is asked, and make nothing."`
}

// agentMade is an agent with its key, which is printed this once.
type agentMade struct {
	agentItem
	Key string `json:"key,omitempty"`
}

// Run makes a key and prints it: alone on stdout as a table, with what is kept of it in the other forms.
func (c *agentsCreateCmd) Run(e *env) error {
	if c.Reason = strings.TrimSpace(c.Reason); c.Reason == "" && !c.DryRun {
		return usageError("--reason is needed: it is kept with the agent")
	}
	var made agentMade
	err := c.with(e, func(ctx context.Context, t *agents.Topics, team string, cfg *config.Config) (err error) {
		known := cfg.AgentSources(team)
		if len(c.Sources) == 0 && len(known) == 1 {
			c.Sources = known
		}
		for _, s := range c.Sources {
			if !slices.Contains(known, s) {
				return schemas.Errorf(schemas.NotFound, "", "team %s has no source %s that takes keys of agents; it has %s", team, s, strings.Join(known, ", "))
			}
		}
		if len(c.Sources) == 0 {
			return usageError("say --sources, of %s", strings.Join(known, ", "))
		}
		made.agentItem = agentItem{Team: team, Name: c.Name, Sources: c.Sources, Types: c.Types, CreatedAt: time.Now().UTC().Truncate(time.Second), CreatedBy: whoAmI(), Reason: c.Reason}
		if c.DryRun {
			return agents.Check(made.agentItem)
		}
		return c.audited(e, cfg, ledger.Change{Action: "agent.create", Team: team, Object: c.Name, Reason: c.Reason}, func() (agentItem, error) {
			made.Key, err = t.Create(ctx, made.agentItem)
			return made.agentItem, err
		})
	})
	if err != nil {
		return err
	}
	err = printOne(e, made, made.Name, func(w io.Writer) {
		if made.Key != "" {
			fmt.Fprintln(w, plain(made.Key))
		}
	})
	if err != nil {
		return err
	}
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was made")
		return nil
	}
	fmt.Fprintf(e.Stderr, "made agent %s of team %s: events of %s, to %s. Its key is shown this once; it goes into the header Authorization, behind Bearer\n",
		plain(made.Name), plain(made.Team), plain(agentTypes(made.Types)), plain(strings.Join(made.Sources, ", ")))
	return nil
}

func agentTypes(types []string) string {
	if types == nil {
		return "all types"
	}
	return strings.Join(types, ", ")
}

type agentsListCmd struct{ agentFlags }

// Run lists the agents of a team, those whose key has ended among them.
func (c *agentsListCmd) Run(e *env) error {
	var page api.Page[agentItem]
	err := c.with(e, func(ctx context.Context, t *agents.Topics, team string, _ *config.Config) (err error) {
		page.Items, err = t.List(ctx, team)
		return err
	})
	if err != nil {
		return err
	}
	type item = agentItem
	return printList(e, page, func(i item) string { return i.Name },
		column[item]{name: "name", whole: true, value: func(i item) string { return i.Name }},
		column[item]{name: "team", value: func(i item) string { return i.Team }},
		column[item]{name: "sources", value: func(i item) string { return strings.Join(i.Sources, ", ") }},
		column[item]{name: "types", value: func(i item) string { return agentTypes(i.Types) }},
		column[item]{name: "state", value: agentState},
		column[item]{name: "created", at: func(i item) *time.Time { return &i.CreatedAt }},
		column[item]{name: "by", wide: true, value: func(i item) string { return i.CreatedBy }},
		column[item]{name: "reason", wide: true, value: func(i item) string { return i.Reason }},
		column[item]{name: "revoked by", wide: true, value: func(i item) string { return i.RevokedBy }},
		column[item]{name: "why revoked", wide: true, value: func(i item) string { return i.RevokedReason }})
}

func agentState(i agentItem) string {
	if i.RevokedAt != nil {
		return "revoked"
	}
	return "valid"
}

type agentsRevokeCmd struct {
	agentFlags
	Name   string `arg:"" help:"The agent."`
	Reason string `placeholder:"TEXT" help:"Why; kept with who said so and when."`
	DryRun bool   `help:"Show it, and end nothing."`
}

// Run ends the key of an agent.
func (c *agentsRevokeCmd) Run(e *env) error {
	if c.Reason = strings.TrimSpace(c.Reason); c.Reason == "" && !c.DryRun {
		return usageError("--reason is needed: it is kept with the agent")
	}
	var kept agentItem
	err := c.with(e, func(ctx context.Context, t *agents.Topics, team string, cfg *config.Config) (err error) {
		if !c.DryRun {
			return c.audited(e, cfg, ledger.Change{Action: "agent.revoke", Team: team, Object: c.Name, Reason: c.Reason}, func() (agentItem, error) {
				kept, err = t.Revoke(ctx, team, c.Name, whoAmI(), c.Reason, time.Now().UTC().Truncate(time.Second))
				return kept, err
			})
		}
		all, err := t.List(ctx, team)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(a agentItem) bool { return a.Name == c.Name })
		if at < 0 {
			return schemas.Errorf(schemas.NotFound, "", "team %s has no agent %s", team, c.Name)
		}
		kept = all[at]
		return nil
	})
	if err != nil {
		return err
	}
	err = printOne(e, kept, kept.Name, func(w io.Writer) {
		if c.DryRun {
			fmt.Fprintf(w, "%s: events of %s, to %s, %s, made %s by %s\n", plain(kept.Name), plain(agentTypes(kept.Types)), plain(strings.Join(kept.Sources, ", ")), agentState(kept),
				formatTime(kept.CreatedAt), plain(kept.CreatedBy))
		}
	})
	if err != nil {
		return err
	}
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was revoked")
		return nil
	}
	fmt.Fprintf(e.Stderr, "revoked agent %s of team %s: within a second no intake takes its key\n", plain(kept.Name), plain(kept.Team))
	return nil
}
