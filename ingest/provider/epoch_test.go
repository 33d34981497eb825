package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
)

// A provider that set its counter back says so: the event is newer than all of the incarnation before.
func TestEpochIsWhatTheProviderSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version provider.VersionConfig
		body    string
		want    string
	}{
		{provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "/run"}, `"rev":1,"run":7`, "e000007:00000000000000000001"},
		{provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "/run"}, `"rev":1,"run":"7"`, "e000007:00000000000000000001"},
		{provider.VersionConfig{From: "/rev", Kind: "monotonic", Epoch: "header:X-Run"}, `"rev":1`, "e000042:00000000000000000001"},
		{provider.VersionConfig{From: "/rev", Kind: "monotonic", As: "text", Epoch: "/run"}, `"rev":"a","run":999999`, "e999999:=a"},
		{provider.VersionConfig{From: "/rev", Kind: "monotonic", Epoch: "cel:int(body.db.split) + 1"}, `"rev":1,"db":{"split":2}`, "e000003:00000000000000000001"},
		{provider.VersionConfig{From: "/rev", Kind: "timestamp", Epoch: "/run"}, `"rev":1557933618,"run":1`, "e000001:2019-05-15T15:20:18.000000000Z"},
		{provider.VersionConfig{From: "/rev", Kind: "sequence"}, `"rev":1,"run":7`, "00000000000000000001"},
	} {
		s := compile(t, jobs(c.version))
		e, err := s.Event(request(`{"type":"t","job":1,`+c.body+`}`, "X-Event-Id: i", "X-Run: 42"), received)
		if err != nil || e.Version.Sortable() != c.want {
			t.Errorf("%+v of %s: %+v %v, want %s", c.version, c.body, e, err, c.want)
		}
	}
	s := compile(t, jobs(provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "/run"}))
	var last schemas.Version
	for _, body := range []string{`"rev":9,"run":1`, `"rev":1,"run":2`, `"rev":2,"run":2`, `"rev":0,"run":10`} {
		e, err := s.Event(request(`{"type":"t","job":1,`+body+`}`, "X-Event-Id: i"), received)
		if err != nil || e.Version.Compare(last) <= 0 || e.Version.Sortable() <= last.Sortable() {
			t.Fatalf("%s: %+v %v, not above %+v", body, e, err, last)
		}
		last = e.Version
	}
}

// What does not say its epoch is kept for an operator: a guess would make it stale, or let it over what is newer.
func TestEpochThatIsNoneIsUnusable(t *testing.T) {
	t.Parallel()
	s := compile(t, jobs(provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "/run"}))
	for body, want := range map[string]string{
		`"run":0`:       provider.BadVersion,
		`"run":1000000`: provider.BadVersion,
		`"run":-1`:      provider.BadVersion,
		`"run":"b7b2"`:  provider.BadVersion,
		`"run":null`:    provider.MissingField,
		`"ran":1`:       provider.MissingField,
		`"run":true`:    provider.WrongType,
	} {
		_, err := s.Event(request(`{"type":"t","job":1,"rev":4,`+body+`}`, "X-Event-Id: i"), received)
		bad, ok := errors.AsType[*provider.Unusable](err)
		if !ok || bad.Reason != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
		if ok && (strings.Contains(bad.Detail, "b7b2") || !strings.Contains(bad.Detail, "/run")) {
			t.Errorf("the detail says the value, or not where: %s", bad.Detail)
		}
	}
}

func TestEpochMistakesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version provider.VersionConfig
		want    string
	}{
		{provider.VersionConfig{Kind: "none", Epoch: "/run"}, "epoch and missing have no meaning with kind: none"},
		{provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "sha256:body"}, "event.version.epoch is the body's hash"},
		{provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "run"}, "event.version.epoch \"run\" is not a JSON Pointer"},
		{provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "cel:1.5"}, "event.version.epoch"},
		{provider.VersionConfig{From: "/rev", Kind: "sequence", Epoch: "cel:body.run +"}, "event.version.epoch"},
	} {
		cfg := jobs(c.version)
		cfg.Team, cfg.Name, cfg.Secrets = "acme", "in", []schemas.Secret{schemas.NewSecret(whsec)}
		_, err := provider.Compile(cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.version, err, c.want)
		}
	}
}
