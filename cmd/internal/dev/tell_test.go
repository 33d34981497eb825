package dev

import (
	"strings"
	"testing"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// What config check remarks about a file, dev says, too; about the sample there is nothing to remark.
func TestNotesAreTold(t *testing.T) {
	t.Parallel()
	path, err := ensureConfig(t.TempDir(), usual)
	if err != nil {
		t.Fatal(err)
	}
	told := func(path string, data []byte) string {
		c, err := config.Load(config.Options{Path: path, Data: data, Embedded: true})
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		(&session{Options: Options{Stderr: &b}}).printNotes(c)
		return b.String()
	}
	if got := told(path, nil); got != "" {
		t.Errorf("of the sample: %s", got)
	}
	const file = `version: 1
teams:
  me:
    sources: {github: {preset: github, secrets: [0123456789abcdef]}}
    destinations: {out: {type: log}}
    subscriptions:
      triage: {sources: [github], types: ["issues.*"], actions: [{name: run, to: out}]}
`
	if got := told("mine.yaml", []byte(file)); !strings.HasPrefix(got, "note: mine.yaml:7: teams.me.subscriptions.triage.types[0]: ") {
		t.Errorf("of a glob that matches nothing: %q", got)
	}
}
