package app

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/console"
	"github.com/forebay-io/forebay/cmd/internal/openid"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// guard has those who ask the operator listener prove who they are, if the file says so.
func (a *App) guard(cfg *api.Config) {
	if a.stream != nil {
		keys := &tokensAPI{inboxAPI{a.stream}}
		cfg.Tokens, cfg.Owners, cfg.Audit = keys, keys, keys
	}
	o := a.file().Operator
	if !o.HasTokens() {
		return
	}
	keeper := access.NewKeeper(func() (access.Store, error) { return a.keys() }, a.log)
	from := ingest.Limits{TrustedProxies: o.BehindProxy}
	who := func(ctx context.Context, token string) (*access.Who, error) {
		w, err := keeper.Who(ctx, token)
		if err == nil {
			ingest.Known(ctx)
		}
		return w, err
	}
	cfg.Access = &api.Access{Who: who, Host: o.Host(), BehindProxy: o.BehindProxy, Address: func(r *http.Request) string { return from.AddressOf(r).String() }}
}

// login has those who look at the console log in, if the file has those who ask prove who they are.
func (a *App) login(cfg *api.Access, audit api.Audit) *console.Login {
	if cfg == nil {
		return nil
	}
	o := a.file().Operator
	var provider *openid.Login
	var rules []byte
	if o.OIDC != nil {
		provider = openid.New(oidcConfig(o, a.log))
		rules = provider.Fingerprint()
	}
	sessions := access.NewSessions(func() (access.SessionStore, error) { return a.keys() }, rules, a.log)
	return &console.Login{Sessions: sessions, OIDC: provider, Token: cfg.Who, Audit: audit, Secure: o.PublicURL != "" || o.TLS != nil || len(o.BehindProxy) > 0, Address: cfg.Address, Known: ingest.Known}
}

// oidcConfig says how people log in by the provider of the file.
func oidcConfig(o config.Operator, log *slog.Logger) openid.Config {
	p := o.OIDC
	cfg := openid.Config{Issuer: p.Issuer, ClientID: p.ClientID, ClientSecret: p.ClientSecret, Scopes: p.Scopes, Redirect: o.PublicURL + "/console/login/callback", Logger: log}
	for _, g := range p.Grants {
		cfg.Rules = append(cfg.Rules, openid.Rule{Claim: g.Claim, Value: g.Value, Role: g.Role, Teams: g.Only(), Payloads: g.Payloads})
	}
	return cfg
}

// keys returns the ledger, which has the tokens and the sessions.
func (a *App) keys() (*ledger.Ledger, error) {
	if a.stream == nil {
		return nil, schemas.Errorf(schemas.Conflict, "", "this process has no stream role, so it has no ledger with the tokens; ask one that runs `forebay serve --roles stream`")
	}
	if l := a.file().Ledger(); l.OfTeam {
		return nil, schemas.Errorf(schemas.Conflict, "", "tokens do not work in this process: its ledger (%s) is named in a team's file, "+
			"and whoever can write to that ledger could make tokens for all teams. Ask it on loopback, with operator.auth: none", l.Path)
	}
	return a.stream.openLedger()
}

// openLedger returns the ledger, once Postgres has answered.
func (s *streams) openLedger() (*ledger.Ledger, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger == nil {
		return nil, schemas.Errorf(schemas.Unavailable, "read the ledger", "it is not open yet; /readyz says why")
	}
	return s.ledger, nil
}

// tokensAPI makes and revokes tokens, keeps the audit, and says of which team things are that have an id alone.
type tokensAPI struct{ inboxAPI }

// Tokens implements [api.Tokens].
func (t *tokensAPI) Tokens(ctx context.Context) ([]api.TokenItem, error) {
	l, err := t.s.openLedger()
	if err != nil {
		return nil, err
	}
	return l.Tokens(ctx)
}

// CreateToken implements [api.Tokens].
func (t *tokensAPI) CreateToken(ctx context.Context, r api.TokenRequest) (*api.TokenMade, error) {
	kept, token, err := access.MakeOf(configured(t.s.a.file()).teams, r.Request, time.Now())
	if err != nil || r.DryRun {
		return &api.TokenMade{TokenItem: kept}, err
	}
	l, err := t.s.openLedger()
	if err != nil {
		return nil, err
	}
	if kept, err = l.CreateToken(ctx, kept); err != nil {
		return nil, err
	}
	return &api.TokenMade{TokenItem: kept, Token: token}, nil
}

// RevokeToken implements [api.Tokens].
func (t *tokensAPI) RevokeToken(ctx context.Context, name string, r api.TokenRevocation) (*api.TokenItem, error) {
	l, err := t.s.openLedger()
	if err != nil {
		return nil, err
	}
	kept, err := l.RevokeToken(ctx, name, r.By, r.Reason)
	return &kept, err
}

// BeginChange implements [api.Audit].
func (t *tokensAPI) BeginChange(ctx context.Context, c api.AuditItem) (int64, error) {
	l, err := t.s.openLedger()
	if err != nil {
		return 0, err
	}
	return l.BeginChange(ctx, c)
}

// EndChange implements [api.Audit].
func (t *tokensAPI) EndChange(ctx context.Context, id int64, c api.AuditItem) error {
	l, err := t.s.openLedger()
	if err != nil {
		return err
	}
	return l.EndChange(ctx, id, c)
}

// Changes implements [api.Audit].
func (t *tokensAPI) Changes(ctx context.Context, f api.AuditFilter) (page api.Page[api.AuditItem], err error) {
	l, err := t.s.openLedger()
	if err == nil {
		page.Items, page.Next, err = l.Changes(ctx, f)
	}
	if err == nil && len(page.Items) == 0 {
		err = t.knownInAudit(ctx, f)
	}
	return page, err
}

// OwnAction implements [api.Owners].
func (t *tokensAPI) OwnAction(ctx context.Context, teams []string, text string) (string, error) {
	box, _, err := t.open()
	if err != nil {
		return "", err
	}
	if _, whole := schemas.ActionID(text).Hash(); whole {
		has, err := box.HasAction(ctx, teams, schemas.ActionID(text))
		if err != nil || !has {
			return "", err
		}
		return text, nil
	}
	ids, err := box.ActionIDs(ctx, append([]string{}, teams...), text) // never nil, which is all
	switch {
	case schemas.KindOf(err) == schemas.Invalid:
		return "", nil // no beginning of an id
	case err != nil || len(ids) == 0:
		return "", err
	case len(ids) > 1:
		return "", schemas.Errorf(schemas.Invalid, "", "%s is the beginning of several: give more of it", text)
	}
	return string(ids[0]), nil
}

// OwnReplay implements [api.Owners].
func (t *tokensAPI) OwnReplay(ctx context.Context, teams []string, id int64) (bool, error) {
	box, _, err := t.open()
	if err != nil {
		return false, err
	}
	return box.HasReplay(ctx, teams, id)
}
