package app

import (
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
)

// waitingKeys are the keys that have changed and wait for the next start of the process. Safe for concurrent use.
type waitingKeys struct {
	mu    sync.Mutex
	read  *config.Config // the configuration as it was read last; nil: never since the start
	keys  []config.Waiting
	since map[string]time.Time // by path
}

// put replaces them. read is what they are keys of.
func (w *waitingKeys) put(keys []config.Waiting, read *config.Config) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.since
	w.keys, w.read, w.since = keys, read, map[string]time.Time{}
	for _, k := range keys {
		if w.since[k.Path] = before[k.Path]; w.since[k.Path].IsZero() {
			w.since[k.Path] = time.Now()
		}
	}
}

// rows lists them.
func (w *waitingKeys) rows() (rows []api.AttentionItem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		rows = append(rows, waitingRow(k, w.since[k.Path]))
	}
	return rows
}

// waitingRow returns a key as the list has it.
func waitingRow(k config.Waiting, since time.Time) api.AttentionItem {
	detail := "it was changed and goes on with its value of before: a process takes it when it starts. Everything else that was changed is in force"
	if steps := strings.Split(k.Path, "."); strings.HasSuffix(k.Path, ".max_body") || len(steps) == 4 && steps[2] == "sources" {
		detail = "larger bodies need `forebay topics apply`, and a restart of all processes, those with the stream role first; until then a source keeps its limit, and a new one is not there"
	}
	return api.AttentionItem{Kind: api.KindWaits, ID: k.Path, Team: k.Team, Reason: "needs_restart", Since: timeOrNull(since), Detail: k.Path + ": " + detail, Command: "forebay config diff"}
}

func pathsOf(keys []config.Waiting) string {
	var paths []string
	for _, k := range keys {
		paths = append(paths, k.Path)
	}
	return strings.Join(paths, ", ")
}

// configDiff lists what the files have and this process has not.
func (a *App) configDiff() (list []api.ConfigDifference) {
	for _, row := range a.refused.rows(a.file(), a.cfg.Path) {
		list = append(list, api.ConfigDifference{Team: row.Team, Path: row.ID, File: row.Detail, Reason: row.Reason})
	}
	w := &a.waiting
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.keys) == 0 {
		return list
	}
	var paths []string
	for _, k := range w.keys {
		paths = append(paths, k.Path)
	}
	running, file := a.file().Shown(paths...), w.read.Shown(paths...)
	for i, k := range w.keys {
		list = append(list, api.ConfigDifference{Team: k.Team, Path: k.Path, Running: running[i], File: file[i], Reason: "needs_restart"})
	}
	return list
}
