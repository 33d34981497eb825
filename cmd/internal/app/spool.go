package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/spool"
)

// intakeSpool is the spool of the intake, with what runs it.
type intakeSpool struct {
	*spool.Spool
	a    *App
	end  context.CancelFunc // nil until start
	done chan struct{}      // closed when it has ended
}

// newIntakeSpool makes the spool in front of log, which is in front of brokers. What is on disk goes to the brokers.
func newIntakeSpool(a *App, log ingest.Log, brokers spool.Producer) (*intakeSpool, error) {
	s, err := spool.New(spool.Config{Dir: a.file().SpoolDir(), MaxSize: int64(a.file().Intake.Spool.MaxSize), Log: log, Producer: brokers,
		Spools: a.spools, Topic: a.sourceTopic, QuarantineTopic: topics.Quarantine, Logger: a.log, Registerer: a.registry})
	return &intakeSpool{Spool: s, a: a, done: make(chan struct{})}, err
}

// spools reports whether deliveries of a source go to the disk.
func (a *App) spools(team, source string) bool {
	t := a.file().Teams[team]
	return t != nil && t.Sources[source] != nil && t.Sources[source].OnBrokerOutage == config.OutageSpool
}

// sourceTopic returns where events of a source go; empty: it is gone, or not known, since something of its team was left out.
func (a *App) sourceTopic(team, source string) (topic string, known bool) {
	if t := a.file().Teams[team]; t != nil && t.Sources[source] != nil {
		return t.Sources[source].Topic, true
	}
	return "", !a.file().LeftOut(team)
}

// start begins to give the brokers what is on disk. A nil spool has nothing.
func (s *intakeSpool) start() {
	if s == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	go func() {
		defer close(s.done)
		s.Run(ctx)
	}()
}

// stop ends it. What is on disk waits for the next process.
func (s *intakeSpool) stop() {
	if s == nil {
		return
	}
	if s.end != nil {
		s.end()
		<-s.done
	}
	s.Close()
}

// takes returns the state of the intake, of which that of the brokers is given: while the spool takes deliveries, it works without them. What is
// on disk is told.
func (s *intakeSpool) takes(brokers error) error {
	if s == nil {
		return brokers
	}
	var records, unread int
	var bytes int64
	oldest, full := time.Now(), false
	for _, of := range s.Stats() {
		records, bytes, full, unread = records+of.Records, bytes+of.Bytes, full || of.Full, unread+of.Unread
		if of.Records > 0 && of.Oldest.Before(oldest) {
			oldest = of.Oldest
		}
	}
	var on []string
	if records > 0 {
		on = append(on, fmt.Sprintf("%d deliveries (%d bytes) wait on this disk for the brokers, the oldest since %s", records, bytes, oldest.UTC().Format(time.RFC3339)))
	}
	if unread > 0 {
		on = append(on, unreadFiles(unread))
	}
	waiting := cmp.Or(strings.Join(on, "; "), "nothing waits on it")
	switch {
	case brokers == nil && records+unread == 0:
		return nil
	case brokers == nil:
		return notice(waiting)
	case full:
		return fmt.Errorf("%w; and the disk takes no more: %s", brokers, waiting)
	case !s.a.anySpools():
		return brokers
	case records+unread == 0:
		return notice("deliveries go to this disk: " + checkOf("", brokers).Error)
	}
	return notice(waiting + ": " + checkOf("", brokers).Error)
}

// unreadFiles tells of files that nothing but the next start reads.
func unreadFiles(n int) string {
	return fmt.Sprintf("%d files could not be read at the start, and may hold deliveries: the log names them; keep them, and start again once they can be read", n)
}

// anySpools reports whether a source keeps deliveries on disk.
func (a *App) anySpools() bool {
	for name, t := range a.file().Teams {
		for source := range t.Sources {
			if a.spools(name, source) {
				return true
			}
		}
	}
	return false
}

// without returns the state of a part that waits at the start: an intake with a spool does without the topics meanwhile, and what the stream
// waits for has states of its own.
func (a *App) without(name string, waits error) error {
	if name != "topics" || a.intake == nil {
		return waits
	}
	return a.intake.spool.takes(waits)
}

// spoolRows lists the sources of which deliveries wait on this process's disk, or found no room there.
func (a *App) spoolRows() (rows []api.AttentionItem) {
	if a.intake.spool == nil {
		return nil
	}
	used, most := a.intake.spool.Size()
	for _, of := range a.intake.spool.Stats() {
		rows = append(rows, spoolRow(of, a.file().SpoolDir(), used, most, a.cfg.Path))
	}
	return rows
}

// spoolRow returns a source of which deliveries wait on disk as the list has it. dir is the spool's, which has used bytes of most; file the
// configuration's.
func spoolRow(of spool.Stats, dir string, used, most int64, file string) api.AttentionItem {
	row := api.AttentionItem{Kind: api.KindSpooling, ID: of.Team + "/" + of.Source, Team: of.Team, Source: of.Source, Events: int64(of.Records), Since: timeOrNull(of.Oldest),
		Detail:  fmt.Sprintf("%d deliveries (%d bytes) were acknowledged, and wait on this intake's disk, in %s, until the brokers take them", of.Records, of.Bytes, dir),
		Command: "forebay doctor -c " + quoted(file)}
	if of.Full {
		row.Reason = "full"
		row.Detail += fmt.Sprintf("; the last one found no room and was answered 503: the disk is full, or the spool (%d bytes of intake.spool.max_size %s)", used, config.Size(most))
	}
	if of.Unread > 0 {
		row.Detail += "; " + unreadFiles(of.Unread)
	}
	if of.Err != nil {
		row.Detail += "; the last try: " + checkOf("", of.Err).Error
	}
	return row
}
