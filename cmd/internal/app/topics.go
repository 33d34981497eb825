package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// unfitTopics are the topics that were missing or unfit at the start and are still. What needs one of them does not run until it is mended,
// and everything else does: no team's topic holds up the others. Safe for concurrent use.
type unfitTopics struct {
	some   atomic.Bool // there are any: asked for each delivery
	mu     sync.Mutex
	topics topics.Unfit
	since  time.Time
	mended chan struct{} // closed and made again when they change

	changed atomic.Pointer[topics.Unfit] // those that became unfit since the start, as recheckTopics saw them last; nil: none that is known
}

// put replaces them.
func (u *unfitTopics) put(unfit topics.Unfit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.mended != nil {
		close(u.mended)
	}
	if u.topics == nil {
		u.since = time.Now()
	}
	u.topics, u.mended = unfit, make(chan struct{})
	u.some.Store(len(unfit) > 0)
}

// still replaces those that were unfit at the start by what is left of them, and takes these out of unfit: the rest became so since.
func (u *unfitTopics) still(unfit topics.Unfit) {
	u.mu.Lock()
	before := u.topics
	u.mu.Unlock()
	left := topics.Unfit{}
	for name := range before {
		if wrong, yet := unfit[name]; yet {
			left[name] = wrong
			delete(unfit, name)
		}
	}
	u.put(left)
}

// err returns what is wrong with some topics, all if none is named, and nil if these are fit. file is the configuration's path.
func (u *unfitTopics) err(file string, names ...string) error {
	if !u.some.Load() {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.topics.Err(file, names...)
}

// looked returns when a topic was first unfit, and a channel that is closed when they may have changed.
func (u *unfitTopics) looked() (since time.Time, mended <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.since, u.mended
}

// wantedTopics returns the topics that this process uses: for the intake each source's topics of events and of quarantine, for the
// stream those that its subscriptions read.
func (a *App) wantedTopics() []topics.Topic {
	all := topics.Wanted(a.file(), a.file().MaxBody)
	if a.has(config.RoleIntake) {
		return all
	}
	used := map[string]bool{}
	for _, at := range a.stream.runs() {
		for _, name := range a.topicsOf(at) {
			used[name] = true
		}
	}
	return slices.DeleteFunc(all, func(t topics.Topic) bool { return !used[t.Name] })
}

// topicsOf returns the topics that a subscription reads.
func (a *App) topicsOf(at nameInTeam) []string {
	names := []string{} // not nil, which would be all topics
	for _, s := range a.file().SourcesOf(at.team, at.name) {
		names = append(names, s.Topic)
	}
	return names
}

// topicGrace is how long a topic may be missing after the start: not every broker knows at once of a topic that was just created.
const topicGrace = 3 * time.Second

// checkTopics looks for topics that are missing, or have settings with which an acknowledged delivery could be lost, and notes them. If
// nothing of this process can run without them, it returns the error. It waits until the brokers answer, up to topicGrace for missing topics,
// and while nothing but rights is missing and nothing can run.
func (a *App) checkTopics(ctx context.Context, client *kgo.Client) error {
	began := time.Now()
	var notes []string
	var unfit topics.Unfit
	err := a.patiently(ctx, "topics", func(ctx context.Context) (err error) {
		if notes, unfit, err = topics.Check(ctx, client, a.wantedTopics(), a.cfg.Path); err != nil {
			return record.By(KafkaUser(a.file(), a.kafkaRole()), err)
		}
		switch err := unfit.Err(a.cfg.Path); schemas.KindOf(err) {
		case schemas.NotFound:
			if time.Since(began) < topicGrace {
				return &schemas.Error{Kind: schemas.Unavailable, Err: err} // patiently tries again after an error of this kind
			}
		case schemas.Unavailable:
			if !a.runsWithout(unfit) {
				return err
			}
		}
		return nil
	})
	for _, note := range notes {
		a.log.Warn("a topic does not keep events as long as is configured, or keeps them longer", "what", note)
	}
	if err == nil && !a.runsWithout(unfit) {
		err = unfit.Err(a.cfg.Path)
	}
	if err == nil && len(unfit) > 0 {
		a.log.Error("what needs these topics does not run, and everything else does; they are looked at again every 10 s", "error", unfit.Err(a.cfg.Path))
		a.unfit.put(unfit)
	}
	a.ready.set("topics", err)
	return err
}

// runsWithout reports whether anything of this process needs none of these topics.
func (a *App) runsWithout(unfit topics.Unfit) bool {
	if len(unfit) == 0 {
		return true
	}
	fit := func(names ...string) bool { return unfit.Err("", names...) == nil }
	if a.intake != nil {
		for _, s := range *a.intake.sources.current.Load() {
			if fit(s.Topic, s.QuarantineTopic) {
				return true
			}
		}
	}
	return a.stream != nil && slices.ContainsFunc(a.stream.runs(), func(at nameInTeam) bool { return fit(a.topicsOf(at)...) })
}

// topicsAgain is how often topics are looked at again.
const topicsAgain = 10 * time.Second

// recheckTopics looks at the topics again until ctx ends: those that were unfit may have been mended, and others changed under a process that
// runs. It goes on with these, and says so.
func (a *App) recheckTopics(ctx context.Context) error {
	client, err := kgo.NewClient(KafkaOptions(a.file(), a.kafkaRole())...)
	if err != nil {
		return err
	}
	defer client.Close()
	var changed, unseen error
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(topicsAgain):
		}
		_, unfit, err := topics.Check(ctx, client, a.wantedTopics(), a.cfg.Path)
		if err != nil && unseen == nil && ctx.Err() == nil {
			a.log.Warn("the topics cannot be looked at: whether one was changed is not known; it is tried again every 10 s", "error", err)
		}
		if unseen = err; err != nil {
			continue // the brokers are away: the next look may find out
		}
		if a.unfit.some.Load() {
			if a.unfit.still(unfit); !a.unfit.some.Load() {
				a.log.Info("what did not run for its topics runs now")
			}
		}
		changed = a.tellChanged(unfit, changed)
	}
}

// tellChanged logs, and has /readyz say, which topics were given settings with which no process would start, or may not be looked at any more,
// unless it said the same before (said). It returns what it says now. Topics that are missing are left out: those who write to them or read them tell of these.
func (a *App) tellChanged(unfit topics.Unfit, said error) error {
	maps.DeleteFunc(unfit, func(_ string, wrong topics.Wrong) bool { return wrong == topics.Wrong{} })
	a.unfit.changed.Store(&unfit)
	err := unfit.Err(a.cfg.Path)
	switch {
	case err == nil && said != nil:
		a.log.Info("no topic is changed any more")
		a.ready.set("topics", nil)
	case err != nil && (said == nil || said.Error() != err.Error()):
		a.log.Error("a topic was changed so that events can be lost or refused, or a right to look at it taken away: no process would start with it. It is used on, but nothing is acknowledged into one that is compacted", "error", err)
		a.ready.set("topics", notice("changed while this process runs, so that events can be lost or refused, or a right to look at it was taken away: "+err.Error()))
	}
	return err
}

// awaitTopics waits until the topics of a subscription can be used, and reports false if ctx ends before that.
func (s *streams) awaitTopics(ctx context.Context, at nameInTeam) bool {
	for said := false; ; said = true {
		_, mended := s.a.unfit.looked()
		err := s.a.unfit.err(s.a.cfg.Path, s.a.topicsOf(at)...)
		if err == nil {
			return true
		}
		if !said {
			s.a.log.Error("a subscription waits for its topics", "subscription", at.team+"."+at.name, "error", err)
		}
		s.a.ready.set("subscription "+at.team+"."+at.name, nil) // the others run
		select {
		case <-ctx.Done():
			return false
		case <-mended:
		}
	}
}

// withoutTopicsRows lists the subscriptions that wait for their topics.
func (t *attention) withoutTopicsRows() (rows []api.AttentionItem) {
	for _, at := range t.a.stream.runs() {
		if err := t.a.unfit.err(t.a.cfg.Path, t.a.topicsOf(at)...); err != nil {
			since, _ := t.a.unfit.looked()
			command := "forebay topics apply -c "
			if schemas.KindOf(err) == schemas.Unavailable { // a right is missing
				command = "forebay acls export -c "
			}
			rows = append(rows, api.AttentionItem{Kind: api.KindBarred, ID: at.team + "." + at.name, Team: at.team, Subscription: at.name, Reason: "topic_unfit", Since: timeOrNull(since),
				Detail: "it does not run: " + err.Error() + "; it begins within 10 s of that", Command: command + quoted(t.a.cfg.Path)})
		}
	}
	return rows
}

// fitLog takes what the intake acknowledges, or an operator redrives, and refuses it for topics that are unfit: there it could be lost. Of those that
// were changed since the start it refuses the ones that are compacted, which lose events for sure: with fewer replicas in sync, say, an
// operator goes on on purpose.
type fitLog struct {
	*producer.Producer
	a *App
}

func (l fitLog) refused(topic string) error {
	if err := l.a.unfit.err(l.a.cfg.Path, topic); err != nil {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "append", Err: fmt.Errorf("the topic cannot be used: %w", err)}
	}
	if changed := l.a.unfit.changed.Load(); changed != nil && (*changed)[topic].Compacts {
		return &schemas.Error{Kind: schemas.Unavailable, Op: "append", Err: fmt.Errorf("the topic loses what it has: %w", changed.Err(l.a.cfg.Path, topic))}
	}
	return nil
}

// Append implements [ingest.Log].
func (l fitLog) Append(ctx context.Context, by time.Time, topic string, e *schemas.Event) error {
	if err := l.refused(topic); err != nil {
		return err
	}
	return l.Producer.Append(ctx, by, topic, e)
}

// ProduceAll is [producer.Producer.ProduceAll] for a spool, whose records are all of one topic.
func (l fitLog) ProduceAll(ctx context.Context, by time.Time, records []*kgo.Record) (int, error) {
	if err := l.refused(records[0].Topic); err != nil {
		return 0, err
	}
	return l.Producer.ProduceAll(ctx, by, records)
}

// Quarantine implements [ingest.Log].
func (l fitLog) Quarantine(ctx context.Context, by time.Time, topic string, d *ingest.Delivery) error {
	if err := l.refused(topic); err != nil {
		return err
	}
	return l.Producer.Quarantine(ctx, by, topic, d)
}

// AppendAll implements [ingest.Log]. A topic that gets nothing holds nothing up.
func (l fitLog) AppendAll(ctx context.Context, by time.Time, topic string, events []*schemas.Event, quarantine string, rest []*ingest.Delivery) error {
	var err error
	if len(events) > 0 {
		err = l.refused(topic)
	}
	if err == nil && len(rest) > 0 {
		err = l.refused(quarantine)
	}
	if err != nil {
		return err
	}
	return l.Producer.AppendAll(ctx, by, topic, events, quarantine, rest)
}

// Republish is [producer.Producer.Republish].
func (l fitLog) Republish(ctx context.Context, topic string, r *kgo.Record) (partition int32, offset int64, err error) {
	if err := l.refused(topic); err != nil {
		return 0, 0, err
	}
	return l.Producer.Republish(ctx, topic, r)
}
