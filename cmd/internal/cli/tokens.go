package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// keysFlags say where tokens are kept: a process with the stream role is asked, or the ledger itself. Nobody has a token to ask with yet
// when the first one is made.
type keysFlags struct {
	listenerFlag
	File          string   `short:"c" name:"config" placeholder:"FILE" help:"Instead of a running process, ask the ledger that this configuration names: the way to the first token."`
	Subscriptions []string `placeholder:"TEAM.SUBSCRIPTION,..." help:"With --config: the ledger of these, which have one of their own. A process knows the tokens of its own ledger."`
}

// asksProcess reports whether a running process is asked, and not the ledger.
func (k *keysFlags) asksProcess() bool { return k.File == "" && len(k.Subscriptions) == 0 }

// withLedger opens the ledger that the file names, and calls f with it and with the teams of the file.
func (k *keysFlags) withLedger(e *env, f func(l *ledger.Ledger, teams []string) error) error {
	if k.File == "" {
		return usageError("--subscriptions says which ledger of a configuration is asked: name that with --config")
	}
	o := fileFlags{File: k.File}.options(e, config.RoleTokens)
	o.Subscriptions = k.Subscriptions
	cfg, err := config.Load(o)
	if err != nil {
		return err
	}
	of := cfg.Ledger()
	if of.OfTeam {
		return schemas.Errorf(schemas.Conflict, "", "the ledger %s is named in a team's file, so no process accepts tokens from it: "+
			"make them in the ledger of the main file (leave out --subscriptions)", of.Path)
	}
	l, err := ledger.Open(e.ctx, ledger.Config{URL: of.Postgres.URL, Key: of.Path + ".url", Schema: of.Postgres.Schema, Logger: e.log})
	if err != nil {
		return err
	}
	defer l.Close()
	return f(l, slices.Sorted(maps.Keys(cfg.Teams)))
}

type tokensCreateCmd struct {
	keysFlags
	Name     string   `arg:"" help:"What it is called, such as ann-laptop. No other token gets that name, even after this one has ended."`
	Role     string   `required:"" enum:"viewer,responder,operator,source-admin,approver,auditor,admin" help:"What it may do: ${enum}."`
	Team     []string `placeholder:"TEAM,..." help:"The teams whose things it may see and change."`
	AllTeams bool     `help:"Instead of --team: all teams, and what concerns all of them."`
	Payloads bool     `help:"It may also see what events carry."`
	Expires  string   `default:"90d" help:"How long it is valid, a year at most."`
	Reason   string   `placeholder:"TEXT" help:"Why; kept with who said so and when."`
	DryRun   bool     `help:"Check what is asked, and make nothing."`
}

func (c *tokensCreateCmd) request() (api.TokenRequest, error) {
	r := api.TokenRequest{DryRun: c.DryRun, Request: access.Request{Name: c.Name, Role: c.Role, Teams: c.Team, Payloads: c.Payloads, Reason: strings.TrimSpace(c.Reason), By: whoAmI()}}
	life, err := config.ParseDuration(c.Expires)
	switch {
	case err != nil || life <= 0:
		return r, usageError("--expires %q is not a duration such as 12h or 90d", c.Expires)
	case c.AllTeams == (len(c.Team) > 0):
		return r, usageError("say either --team or --all-teams")
	case r.Reason == "" && !c.DryRun:
		return r, usageError("--reason is needed: it is kept with the token")
	}
	r.ExpiresAt = time.Now().Add(life.Std()).UTC().Truncate(time.Second)
	return r, nil
}

// Run makes a token and prints it: alone on stdout as a table, with what is kept of it in the other forms.
func (c *tokensCreateCmd) Run(e *env, client *api.Client) error {
	req, err := c.request()
	if err != nil {
		return err
	}
	var made *api.TokenMade
	if c.asksProcess() {
		made, err = client.CreateToken(e.ctx, req)
	} else {
		err = c.withLedger(e, func(l *ledger.Ledger, teams []string) (err error) {
			made, err = createDirectly(e, l, teams, req)
			return err
		})
	}
	unaudited := err
	if err != nil && (made == nil || made.Token == "") {
		return err
	}
	err = printOne(e, made, made.Name, func(w io.Writer) {
		if made.Token != "" {
			fmt.Fprintln(w, plain(made.Token))
		}
	})
	if err != nil {
		return err
	}
	if unaudited != nil {
		return fmt.Errorf("token %s is made, is shown this once and is valid until %s; but the audit does not say that it was made (revoke it if that must not be): %w",
			plain(made.Name), formatTime(made.ExpiresAt), unaudited)
	}
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was made")
		return nil
	}
	fmt.Fprintf(e.Stderr, "made token %s: %s of %s, until %s. It is shown this once; set FOREBAY_TOKEN or --token-file to it\n",
		plain(made.Name), plain(made.Role), plain(tokenTeams(made.Teams)), formatTime(made.ExpiresAt))
	return nil
}

// createDirectly makes a token in the ledger itself. Where it has one beside an error, the token is made, and the audit does not say so.
func createDirectly(e *env, l *ledger.Ledger, teams []string, r api.TokenRequest) (*api.TokenMade, error) {
	kept, token, err := access.MakeOf(teams, r.Request, time.Now())
	if err != nil || r.DryRun {
		return &api.TokenMade{TokenItem: kept}, err
	}
	made := &api.TokenMade{}
	err = audited(e, l, ledger.Change{Action: "token.create", Object: r.Name, Reason: r.Reason}, nil, func() (api.TokenItem, error) {
		kept, err := l.CreateToken(e.ctx, kept)
		if err == nil {
			*made = api.TokenMade{TokenItem: kept, Token: token}
		}
		return kept, err
	})
	return made, err
}

// audited makes a change, and keeps it in the audit of a ledger: before it is tried, and then what became of it. Before is the token as it was, if
// there was one.
func audited[T any](e *env, l *ledger.Ledger, c ledger.Change, before []T, do func() (T, error)) error {
	end := ledger.Change{Outcome: api.OutcomeDone}
	var err error
	if len(before) > 0 {
		if end.Before, err = json.Marshal(before[0]); err != nil {
			return err
		}
	}
	c.Actor, c.By = "ledger", whoAmI()
	id, err := l.BeginChange(e.ctx, c)
	if err != nil {
		return err
	}
	kept, err := do()
	if err != nil {
		end.Outcome, end.Detail = api.OutcomeRefused, err.Error()
		if schemas.KindOf(err) == schemas.Unavailable {
			end.Outcome = api.OutcomeFailed
		}
	} else if end.After, err = json.Marshal(kept); err != nil {
		return err
	}
	return errors.Join(err, l.EndChange(e.ctx, id, end))
}

func tokenTeams(teams []string) string {
	if teams == nil {
		return "all teams"
	}
	return strings.Join(teams, ", ")
}

// show says what of a token would end.
func (c *tokensRevokeCmd) show(e *env, client *api.Client) error {
	page, err := c.list(e, client)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(page.Items, func(t api.TokenItem) bool { return t.Name == c.Name })
	if at < 0 {
		return schemas.Errorf(schemas.NotFound, "", "there is no token %s", c.Name)
	}
	t := &page.Items[at]
	fmt.Fprintln(e.Stderr, "dry run: nothing was revoked")
	return printOne(e, t, t.Name, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %s of %s, %s, made %s by %s\n", plain(t.Name), plain(t.Role), plain(tokenTeams(t.Teams)), tokenState(t, time.Now()), formatTime(t.CreatedAt), plain(t.CreatedBy))
	})
}

// list returns the tokens, of the process or of the ledger.
func (k *keysFlags) list(e *env, client *api.Client) (page api.Page[api.TokenItem], err error) {
	if k.asksProcess() {
		return client.Tokens(e.ctx)
	}
	err = k.withLedger(e, func(l *ledger.Ledger, _ []string) (err error) {
		page.Items, err = l.Tokens(e.ctx)
		return err
	})
	return page, err
}

type tokensListCmd struct {
	keysFlags
	watchFlag
	teamFlag
}

func (c *tokensListCmd) Run(e *env, client *api.Client) (err error) {
	page, err := c.list(e, client)
	if err == nil {
		page, err = ofTeam(c.teamFlag, page, func(i api.TokenItem) []string {
			if i.Teams == nil {
				return []string{"*"}
			}
			return i.Teams
		})
	}
	if err != nil {
		return err
	}
	type item = api.TokenItem
	now := time.Now()
	return printList(e, page, func(i item) string { return i.Name },
		column[item]{name: "name", whole: true, value: func(i item) string { return i.Name }},
		column[item]{name: "role", value: func(i item) string { return i.Role }},
		column[item]{name: "teams", value: func(i item) string { return tokenTeams(i.Teams) }},
		column[item]{name: "payloads", value: func(i item) string { return map[bool]string{true: "yes", false: "no"}[i.Payloads] }},
		column[item]{name: "state", value: func(i item) string { return tokenState(&i, now) }},
		column[item]{name: "last use", at: func(i item) *time.Time { return i.UsedAt }},
		column[item]{name: "expires", at: func(i item) *time.Time { return &i.ExpiresAt }},
		column[item]{name: "created", wide: true, at: func(i item) *time.Time { return &i.CreatedAt }},
		column[item]{name: "by", wide: true, value: func(i item) string { return i.CreatedBy }},
		column[item]{name: "reason", wide: true, value: func(i item) string { return i.Reason }},
		column[item]{name: "revoked by", wide: true, value: func(i item) string { return i.RevokedBy }},
		column[item]{name: "why revoked", wide: true, value: func(i item) string { return i.RevokedReason }})
}

func tokenState(i *api.TokenItem, now time.Time) string {
	switch {
	case i.RevokedAt != nil:
		return "revoked"
	case !now.Before(i.ExpiresAt):
		return "expired"
	}
	return "valid"
}

type tokensRevokeCmd struct {
	keysFlags
	Name   string `arg:"" help:"The token."`
	Reason string `placeholder:"TEXT" help:"Why; kept with who said so and when."`
	DryRun bool   `help:"Show it, and end nothing."`
}

func (c *tokensRevokeCmd) Run(e *env, client *api.Client) (err error) {
	if c.DryRun {
		return c.show(e, client)
	}
	req := api.TokenRevocation{Reason: strings.TrimSpace(c.Reason), By: whoAmI()}
	if req.Reason == "" {
		return usageError("--reason is needed: it is kept with the token")
	}
	var kept *api.TokenItem
	if c.asksProcess() {
		kept, err = client.RevokeToken(e.ctx, c.Name, req)
	} else {
		err = c.withLedger(e, func(l *ledger.Ledger, _ []string) error {
			before, err := l.Tokens(e.ctx)
			if err != nil {
				return err
			}
			before = slices.DeleteFunc(before, func(t api.TokenItem) bool { return t.Name != c.Name })
			return audited(e, l, ledger.Change{Action: "token.revoke", Object: c.Name, Reason: req.Reason}, before, func() (t api.TokenItem, err error) {
				t, err = l.RevokeToken(e.ctx, c.Name, req.By, req.Reason)
				kept = &t
				return t, err
			})
		})
	}
	if err != nil {
		return err
	}
	if err := printOne(e, kept, kept.Name, func(io.Writer) {}); err != nil {
		return err
	}
	fmt.Fprintf(e.Stderr, "revoked token %s: within %s no process accepts it\n", plain(kept.Name), access.Fresh)
	return nil
}
