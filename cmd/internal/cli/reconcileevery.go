package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// reconcileLook is how often it is looked which sources are due: so soon a reload takes effect.
const reconcileLook = 5 * time.Second

// reconciler asks the providers of the sources that want it for what they have failed to deliver. Several processes may do so: what is there
// already is a duplicate.
type reconciler struct {
	e    *env // without output
	log  *slog.Logger
	path string                // of the file
	file func() *config.Config // by which the process goes: with a topic that waits for its next start, not what it has not come to

	asked   map[names.Name]time.Time // when it began last; of one goroutine
	mu      sync.Mutex
	running map[names.Name]bool
	settled map[names.Name]*settledSource
	all     sync.WaitGroup
}

// settledSource is what is settled of a source while it is as it is.
type settledSource struct {
	source config.Source
	since  time.Time
	keys   map[string]bool // as of [sourcesReconcileCmd]
}

func newReconciler(ctx context.Context, e *env, path string, file func() *config.Config) *reconciler {
	quiet := *e
	quiet.ctx, quiet.Stdout, quiet.Stderr = ctx, io.Discard, io.Discard
	return &reconciler{e: &quiet, log: e.log, path: path, file: file, asked: map[names.Name]time.Time{}, running: map[names.Name]bool{}, settled: map[names.Name]*settledSource{}}
}

// run asks until the context ends. The first question about a source comes when it has been here for one interval: what is missed at a start is
// on its way.
func (r *reconciler) run() {
	defer r.all.Wait()
	tick := time.NewTicker(reconcileLook)
	defer tick.Stop()
	for {
		r.look(time.Now())
		select {
		case <-tick.C:
		case <-r.e.ctx.Done():
			return
		}
	}
}

// look begins to ask for the sources that are due. One whose provider still has us wait is left alone.
func (r *reconciler) look(now time.Time) {
	cfg := r.file()
	for team, t := range cfg.Teams {
		for name, s := range t.Sources {
			of := names.Name{Team: team, Name: name}
			switch at, known := r.asked[of]; {
			case s.Reconcile == nil:
				delete(r.asked, of)
			case !known:
				r.asked[of] = now
			case now.Sub(at) >= s.Reconcile.Every.Std() && r.begins(of):
				r.asked[of] = now
				r.all.Go(func() {
					defer r.ends(of)
					r.ask(cfg, of, s.Reconcile)
				})
			}
		}
	}
}

func (r *reconciler) begins(of names.Name) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	begins := !r.running[of]
	r.running[of] = true
	return begins
}

func (r *reconciler) ends(of names.Name) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, of)
}

// settledOf returns what is settled of a source by earlier turns. A source that has changed begins with nothing, as the change may be what it needed; not one
// with another token, which an app makes each ten minutes, or with another way to fetch what its events name.
func (r *reconciler) settledOf(of names.Name, source config.Source) *settledSource {
	how := *source.Reconcile
	how.Token, source.Reconcile = schemas.Secret{}, &how
	source.Thin, source.Backfill = nil, nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.settled[of]; s == nil || !reflect.DeepEqual(s.source, source) {
		r.settled[of] = &settledSource{source, time.Now(), map[string]bool{}}
	}
	return r.settled[of]
}

// ask asks for one source, and logs what came of it.
func (r *reconciler) ask(cfg *config.Config, of names.Name, how *config.Reconcile) {
	log := r.log.With("source", names.Source.Print(of))
	c := sourcesReconcileCmd{Since: how.Since.Std(), Hook: how.Hook, APIURL: how.APIURL, secret: how.Token, role: config.RoleIntake}
	settled := r.settledOf(of, *cfg.Teams[of.Team].Sources[of.Name])
	c.settled, c.rests = settled.keys, settled.since
	to, err := sourceIn(cfg, names.Source.Print(of))
	var list []*missed
	var more bool
	var stopped error
	run := fmt.Sprintf("forebay sources reconcile %s -c %s --since %s --token-file FILE", names.Source.Print(of), r.path, c.Since)
	if how.Hook != "" {
		run += " --hook " + how.Hook
	}
	if how.APIURL != "" {
		run += " --api-url " + how.APIURL
	}
	if err == nil {
		list, more, stopped, err = c.bring(r.e, to)
	}
	switch {
	case r.e.ctx.Err() != nil:
	case err != nil:
		log.Warn("the provider could not be asked for what did not come; trying again with the next interval", "error", err)
	case stopped != nil || more || countMissed(list, "refused") > 0:
		log.Warn("not all that the provider has failed to deliver could be had again", "missed", len(list), "refused", countMissed(list, "refused"), "left", countMissed(list, missedLeft),
			"more", more, "error", stopped, "run", run)
	case len(list) > 0:
		log.Info("what the provider has failed to deliver is had again", "missed", len(list))
	}
}
