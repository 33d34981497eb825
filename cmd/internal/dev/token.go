package dev

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/stream/ledger"
)

const (
	tokenFor  = 90 * 24 * time.Hour
	tokenLeft = 7 * 24 * time.Hour // one that ends sooner is replaced at the start
)

// tokenFile is where the first token is kept, that of the session itself, with operator: {auth: tokens}; empty without.
func (s *session) tokenFile() string {
	if !s.config.Operator.HasTokens() {
		return ""
	}
	return filepath.Join(s.Data, "admin.token")
}

// makeToken has a token of all teams in the data directory: with `forebay serve` somebody would make the first one in the ledger. One of an
// earlier start is kept while it is valid.
func (s *session) makeToken(ctx context.Context) error {
	path := s.tokenFile()
	if path == "" {
		return nil
	}
	l, err := ledger.Open(ctx, ledger.Config{URL: s.config.Postgres.URL, Schema: s.config.Postgres.Schema, Logger: s.Logger})
	if err != nil {
		return err
	}
	defer l.Close()
	if text, err := os.ReadFile(path); err == nil {
		if s.token = strings.TrimSpace(string(text)); s.token != "" {
			known, err := l.Tokens(ctx)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(known, func(t ledger.Token) bool {
				return t.Hash == access.Hash(s.token) && t.RevokedAt == nil && time.Until(t.ExpiresAt) > tokenLeft
			}) {
				return nil
			}
		}
	}
	kept, token, err := access.Make(access.Request{Name: "dev-" + strings.ToLower(rand.Text()[:10]), Role: "admin", Payloads: true, ExpiresAt: time.Now().Add(tokenFor),
		By: cmp.Or(os.Getenv("USER"), "forebay dev"), Reason: "forebay dev"}, time.Now())
	if err != nil {
		return err
	}
	id, err := l.BeginChange(ctx, ledger.Change{Action: "token.create", Object: kept.Name, Reason: kept.Reason, Actor: "ledger", By: kept.CreatedBy})
	if err != nil {
		return err
	}
	end := ledger.Change{Outcome: api.OutcomeDone}
	if kept, err = l.CreateToken(ctx, kept); err != nil {
		end.Outcome, end.Detail = api.OutcomeFailed, err.Error()
	} else if end.After, err = json.Marshal(kept); err != nil {
		return err
	}
	if err = errors.Join(err, l.EndChange(ctx, id, end)); err != nil {
		return err
	}
	s.token = token
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the token of this session: %w", err)
	}
	return nil
}
