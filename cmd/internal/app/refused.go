package app

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// refusedFiles are the files that could not be taken when the configuration was read last. Safe for concurrent use.
type refusedFiles struct {
	mu    sync.Mutex
	files map[string]refusedFile // by path
}

// refusedFile is a file with problems. What these say is left out: it may be a piece of the file, and that a secret.
type refusedFile struct {
	since    time.Time // when it was found first
	problems int
	line     int // of the first; 0: it has none
}

// Refused says what is wrong with the files that were not taken when the configuration was read last: each of these teams keeps what it had, and
// if the main file is among them, all do. Nil: nothing is wrong any more.
func (a *App) Refused(problems config.Problems) {
	b := &a.refused
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.files
	b.files = map[string]refusedFile{}
	for _, p := range problems {
		f, ok := b.files[p.File]
		if !ok {
			f = refusedFile{since: time.Now(), line: p.Line}
			if was, had := before[p.File]; had {
				f.since = was.since
			}
		}
		f.problems++
		b.files[p.File] = f
	}
}

// rows lists the files.
func (b *refusedFiles) rows(c *config.Config, main string) (rows []api.AttentionItem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, f := range b.files {
		_, runs := c.Teams[teamOf(path)]
		rows = append(rows, refusedRow(path, f, runs, main))
	}
	slices.SortFunc(rows, func(a, b api.AttentionItem) int { return strings.Compare(a.ID, b.ID) })
	return rows
}

// ofFiles adds the files that could not be taken, and the keys that wait for the next start.
func (t *attention) ofFiles(_ context.Context, l *look) {
	l.rows = append(l.rows, t.a.refused.rows(t.a.file(), t.a.cfg.Path)...)
	l.rows = append(l.rows, t.a.waiting.rows()...)
}

// teamOf returns the team of a team's file.
func teamOf(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".yaml"), ".yml")
}

// refusedRow returns a file as the list has it; runs: its team has what an earlier file said. main is the configuration's file.
func refusedRow(path string, f refusedFile, runs bool, main string) api.AttentionItem {
	what := fmt.Sprintf("%d problems", f.problems)
	if f.problems == 1 {
		what = "a problem"
	}
	if f.line > 0 {
		what += fmt.Sprintf(", the first in line %d", f.line)
	}
	var teams []string
	team, goesOn := teamOf(path), "the team keeps what the file said before, and none of its changes is in force; it does not run after a start"
	switch {
	case filepath.Clean(path) == filepath.Clean(main):
		team, teams, goesOn = "", []string{"*"}, "it is the main file: no change of any file is in force, but for sources that are shared no more; no process starts with it"
	case !runs:
		goesOn = "nothing of the team runs, and everything else does"
	}
	return api.AttentionItem{Kind: api.KindRefused, ID: filepath.Base(path), Team: team, Teams: teams, Reason: "not_taken", Since: timeOrNull(f.since),
		Detail: fmt.Sprintf("%s, or what it refers to, has %s: %s. Once it is fixed, it is taken within seconds", path, what, goesOn), Command: "forebay config check -c " + quoted(main)}
}

// note says in words what of the files is not in force; empty if all is.
func (a *App) note() string {
	var parts []string
	for _, row := range a.refused.rows(a.file(), a.cfg.Path) {
		parts = append(parts, row.Detail)
	}
	if n := len(a.waiting.rows()); n > 0 {
		parts = append(parts, fmt.Sprintf("changed keys that wait for the next start: %d, see `forebay config diff`", n))
	}
	return strings.Join(parts, "; ")
}
