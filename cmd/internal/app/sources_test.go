package app

import (
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest"
)

// TestEndedSecretIsNotCounted: a secret that has ended is no other one that deliveries may be signed with, and its end is told.
func TestEndedSecretIsNotCounted(t *testing.T) {
	t.Parallel()
	c, err := config.Load(config.Options{Path: "forebay.yaml", Roles: []config.Role{config.RoleIntake}, Data: []byte(
		`{version: 1, kafka: {brokers: ["127.0.0.1:1"]}, teams: {acme: {sources: {hooks: {preset: github, secrets: [{value: aaaaaaaaaaaaaaaaaaaa, expires: "2020-01-01"}, bbbbbbbbbbbbbbbbbbbb]}}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	items := sourceItems(c)
	if len(items) != 1 || items[0].Keys != 1 {
		t.Errorf("%+v", items)
	}
	secrets := c.Teams["acme"].Sources["hooks"].Secrets
	n := ingest.KeyCounts{Secrets: make([]ingest.SecretUse, 2)}
	if seen := seenItem(&n, secrets); seen.Secrets[0].Until == nil || !seen.Secrets[0].Until.Equal(secrets[0].Until()) || seen.Secrets[1].Until != nil {
		t.Errorf("%+v", seen.Secrets)
	}
}
