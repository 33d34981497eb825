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

// brokenFiles are the files of teams that could not be taken when the configuration was read last. Safe for concurrent use.
type brokenFiles struct {
	mu    sync.Mutex
	files map[string]brokenFile // by path
}

// brokenFile is a team's file with problems. What these say is left out: it may be a piece of the file, and that a secret.
type brokenFile struct {
	since    time.Time // when it was found first
	problems int
	line     int // of the first; 0: it has none
}

// Kept says which problems files of teams have had, when the configuration was read last: each of these teams keeps what it had. Nil: none has
// any more.
func (a *App) Kept(problems config.Problems) {
	b := &a.broken
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.files
	b.files = map[string]brokenFile{}
	for _, p := range problems {
		f, ok := b.files[p.File]
		if !ok {
			f = brokenFile{since: time.Now(), line: p.Line}
			if was, had := before[p.File]; had {
				f.since = was.since
			}
		}
		f.problems++
		b.files[p.File] = f
	}
}

// ofFiles adds the files of teams that could not be taken.
func (t *attention) ofFiles(_ context.Context, l *look) {
	b := &t.a.broken
	b.mu.Lock()
	defer b.mu.Unlock()
	var rows []api.AttentionItem
	for path, f := range b.files {
		_, runs := t.a.file().Teams[teamOf(path)]
		rows = append(rows, brokenFileRow(path, f, runs, t.a.cfg.Path))
	}
	slices.SortFunc(rows, func(a, b api.AttentionItem) int { return strings.Compare(a.ID, b.ID) })
	l.rows = append(l.rows, rows...)
}

// teamOf returns the team of a team's file.
func teamOf(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".yaml"), ".yml")
}

// brokenFileRow returns a team's file as the list has it; runs: the team has what an earlier file said. main is the configuration's file.
func brokenFileRow(path string, f brokenFile, runs bool, main string) api.AttentionItem {
	what := fmt.Sprintf("%d problems", f.problems)
	if f.problems == 1 {
		what = "a problem"
	}
	if f.line > 0 {
		what += fmt.Sprintf(", the first in line %d", f.line)
	}
	goesOn := "the team keeps what the file said before, and none of its changes is in force"
	if !runs {
		goesOn = "the team has no file that was good before, so nothing of it runs"
	}
	return api.AttentionItem{Kind: api.KindBrokenFile, ID: filepath.Base(path), Team: teamOf(path), Reason: "not_taken", Since: timeOrNull(f.since),
		Detail: fmt.Sprintf("%s has %s: %s; a process that starts refuses it. Once it is fixed, it is taken within seconds", path, what, goesOn), Command: "forebay config check -c " + quoted(main)}
}
