package api

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// TokenItem is what is kept of a token. It goes over the wire as the ledger has it.
type TokenItem = ledger.Token

// TokenRequest asks for a token.
type TokenRequest struct {
	access.Request
	DryRun bool `json:"dry_run,omitempty"`
}

// TokenMade is a new token. Its text is nowhere else, and is not shown again; a dry run has none.
type TokenMade struct {
	TokenItem
	Token string `json:"token"`
}

// TokenRevocation ends a token.
type TokenRevocation struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
}

// Tokens keeps tokens. Errors are *schemas.Error.
type Tokens interface {
	Tokens(ctx context.Context) ([]TokenItem, error)
	// CreateToken makes a token, unless it is a dry run: then it only checks what is asked.
	CreateToken(ctx context.Context, r TokenRequest) (*TokenMade, error)
	RevokeToken(ctx context.Context, name string, r TokenRevocation) (*TokenItem, error)
}

func (s *server) tokens(ctx context.Context, _ *http.Request) (any, error) {
	return listed(s.Tokens.Tokens(ctx))
}

func (s *server) createToken(ctx context.Context, r *http.Request) (any, error) {
	var req TokenRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	w := who(ctx)
	switch {
	case s.Access == nil:
		return nil, errNobodyProven
	case req.Payloads && !w.May(access.Content):
		return nil, &forbidden{"token " + w.Name + " may not see what events carry, so it makes no token that may"}
	}
	return s.Tokens.CreateToken(ctx, req)
}

func (s *server) revokeToken(ctx context.Context, r *http.Request) (any, error) {
	var req TokenRevocation
	if err := readBody(r, &req, &req.By, &req.Reason, new(bool)); err != nil {
		return nil, err
	}
	if s.Access == nil {
		return nil, errNobodyProven
	}
	return s.Tokens.RevokeToken(ctx, r.PathValue("token"), req)
}

// errNobodyProven is the answer of a listener without authentication. Whoever reaches it could make a token for another process's listener, and get
// in there.
var errNobodyProven = schemas.Errorf(schemas.Conflict, "", "this listener has nobody prove who they are (operator.auth is none), so it makes and revokes no tokens: `forebay tokens` does with -c FILE")

// Tokens lists tokens by name, those that have ended too.
func (c *Client) Tokens(ctx context.Context) (Page[TokenItem], error) {
	return getJSON[Page[TokenItem]](ctx, c, "/v1/tokens", nil)
}

// CreateToken makes a token.
func (c *Client) CreateToken(ctx context.Context, r TokenRequest) (*TokenMade, error) {
	return postJSON[*TokenMade](ctx, c, "/v1/tokens", r)
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, name string, r TokenRevocation) (*TokenItem, error) {
	return postJSON[*TokenItem](ctx, c, "/v1/tokens/"+url.PathEscape(name)+"/revoke", r)
}
