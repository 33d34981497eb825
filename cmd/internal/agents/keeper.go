package agents

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest/verify"
)

// Times of a Keeper.
const (
	// KnownFor is how long keys are taken whose topic is not known to be read to its end any more: a revocation would not be heard of.
	KnownFor = time.Minute
	askEvery = 500 * time.Millisecond // how long a broker keeps a question for news, which it answers at once when there are any
	// lookEvery is how often it is looked where the topics end, and whether one is another by now, that was deleted and created again.
	lookEvery = 5 * time.Second
)

// Keeper knows the agents of the teams that it is told of, and hears of each change at once. Safe for concurrent use.
type Keeper struct {
	options []kgo.Opt
	log     *slog.Logger
	wanted  chan struct{} // the teams are others

	mu    sync.RWMutex
	teams map[string]*team // by topic
}

// team has the agents of one team.
type team struct {
	byHash map[[sha256.Size]byte]Agent
	hashes map[string][sha256.Size]byte // by name
	reads  bool                         // a client reads its topic from the start on; until then what comes is from before the team began
	topic  [16]byte                     // id of what is read; zero: not known yet
	next   int64                        // offset
	end    int64                        // of the topic when it was last asked for
	asked  time.Time                    // when that was; zero: not known yet
	fresh  time.Time                    // when the topic was asked for an end that has been read by now; zero: never
	failed error                        // of a fetch since it was last looked
	told   bool                         // the log was told that the topic cannot be read
}

func newTeam() *team {
	return &team{byHash: map[[sha256.Size]byte]Agent{}, hashes: map[string][sha256.Size]byte{}}
}

// refresh notes whether all was read that was there when the topic was last asked for its end.
func (t *team) refresh() {
	if t.next >= t.end {
		t.fresh = t.asked
	}
}

// NewKeeper makes a keeper of the agents in the cluster that the options lead to. It knows of none until it is told of teams and runs.
func NewKeeper(options []kgo.Opt, log *slog.Logger) *Keeper {
	return &Keeper{options: options, log: log, teams: map[string]*team{}, wanted: make(chan struct{}, 1)}
}

// Want has the agents of these teams read, and of no others.
func (k *Keeper) Want(names []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.teams, func(topic string, _ *team) bool {
		return !slices.ContainsFunc(names, func(name string) bool { return Topic(name) == topic })
	})
	for _, name := range names {
		if topic := Topic(name); k.teams[topic] == nil {
			k.teams[topic] = newTeam()
		}
	}
	select {
	case k.wanted <- struct{}{}:
	default:
	}
}

// Run reads until ctx is done. While no team is wanted it has no connection.
func (k *Keeper) Run(ctx context.Context) error {
	var client *kgo.Client
	hangUp := func() {
		if client != nil {
			client.Close()
			client = nil
		}
	}
	defer hangUp()
	reads := map[string]*team{}
	for ctx.Err() == nil {
		want := k.want()
		if len(want) == 0 {
			hangUp()
			reads = want
			select {
			case <-ctx.Done():
			case <-k.wanted:
			}
			continue
		}
		if client == nil {
			var err error
			if client, err = kgo.NewClient(append(slices.Clone(k.options), kgo.FetchMaxWait(askEvery), kgo.MetadataMinAge(time.Second))...); err != nil {
				return err
			}
		}
		others := false
		if !maps.Equal(reads, want) { // which topic it is has to be known before it is read
			others = k.look(ctx, client)
		}
		if !others {
			k.follow(client, reads, want)
			reads = want
			others = k.turn(ctx, client)
		}
		if others { // whose offsets the client would read by the topic before
			hangUp()
			reads = map[string]*team{}
		}
	}
	return nil
}

// want returns the teams that are to be read, by topic.
func (k *Keeper) want() map[string]*team {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return maps.Clone(k.teams)
}

// follow has a client that reads some teams read others, those that it has not read before from their topics' starts.
func (k *Keeper) follow(client *kgo.Client, reads, want map[string]*team) {
	for topic, t := range reads {
		if want[topic] != t {
			client.RemoveConsumePartitions(map[string][]int32{topic: {0}})
		}
	}
	for topic, t := range want {
		if reads[topic] != t {
			client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
			k.mu.Lock()
			t.reads = true
			k.mu.Unlock()
		}
	}
}

// turn takes what comes. It looks at the topics meanwhile, and ends when it is time to look again, or before long where not all are known yet; when
// other teams are wanted; and when a team begins anew.
func (k *Keeper) turn(ctx context.Context, client *kgo.Client) (others bool) {
	turn, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		defer cancel()
		if others = k.look(turn, client); others {
			return
		}
		select {
		case <-k.wanted:
		case <-time.After(k.pause()):
		case <-turn.Done():
		}
	})
	cut := false
	for turn.Err() == nil && !cut {
		cut = k.take(turn, client.PollFetches(turn))
	}
	cancel()
	looking.Wait()
	return others || cut
}

// pause returns how long it is until the topics are looked at again.
func (k *Keeper) pause() time.Duration {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, t := range k.teams {
		if t.fresh.IsZero() {
			return askEvery
		}
	}
	return lookEvery
}

// take takes what was read. Where something could not be, it waits: the client asks again at once. A topic that was cut has its team begin anew; cut
// reports whether there was any.
func (k *Keeper) take(ctx context.Context, fetches kgo.Fetches) (cut bool) {
	k.mu.Lock()
	fetches.EachRecord(k.read)
	failed := false
	fetches.EachError(func(topic string, _ int32, err error) {
		t := k.teams[topic]
		if t == nil {
			return
		}
		if _, lost := errors.AsType[*kgo.ErrDataLoss](err); lost {
			k.anew(topic, t.topic, wasCut)
			cut = true
			return
		}
		t.failed, failed = err, true
	})
	k.mu.Unlock()
	if failed && !cut {
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
		}
	}
	return cut
}

// wasCut says that records are gone that were read, and others have their offsets: a revocation may be among them.
const wasCut = "a topic of agents was cut: it is read again from its start"

// anew has a team begin anew. The caller holds k.mu.
func (k *Keeper) anew(topic string, id [16]byte, why string) *team {
	k.log.Warn(why, "topic", topic)
	t := newTeam()
	k.teams[topic], t.topic = t, id
	return t
}

// read takes a record. The caller holds k.mu.
func (k *Keeper) read(r *kgo.Record) {
	t := k.teams[r.Topic]
	if t == nil || !t.reads || r.Offset < t.next {
		return
	}
	t.next = r.Offset + 1
	defer t.refresh()
	s, ok := read(r)
	if !ok {
		k.log.Warn("a record is none of an agent's and is left out", "topic", r.Topic, "offset", r.Offset)
		return
	}
	delete(t.byHash, t.hashes[s.Name])
	delete(t.hashes, s.Name)
	if h, _ := s.hash(); s.RevokedAt == nil {
		t.byHash[h], t.hashes[s.Name] = s.Agent, h
	}
}

// look asks which topics are read, and where they end. One that was deleted and created again, or cut, has its team begin anew; others reports whether
// there was any. Of one that the brokers do not answer for, no team but its own knows less.
func (k *Keeper) look(ctx context.Context, client *kgo.Client) (others bool) {
	began, was := time.Now(), map[string]int64{}
	k.mu.RLock()
	for topic, t := range k.teams {
		was[topic] = t.next
	}
	k.mu.RUnlock()
	all := look(ctx, client, slices.Collect(maps.Keys(was)))
	if ctx.Err() != nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var lost, back []string
	var why error
	for topic, t := range k.teams {
		is, ok := all[topic]
		switch {
		case !ok: // it is wanted only now
			continue
		case is.id == [16]byte{}: // deleted, or the broker has none
		case t.topic == [16]byte{}:
			t.topic = is.id
		case t.topic != is.id:
			t, others = k.anew(topic, is.id, "a topic of agents was deleted and created again: the keys of before end"), true
		case is.err == nil && is.end < was[topic]:
			t, others = k.anew(topic, is.id, wasCut), true
		}
		if is.err == nil {
			t.next, t.end, t.asked = max(t.next, is.start), is.end, began
			t.refresh()
		}
		err := cmp.Or(is.err, t.failed)
		switch t.failed = nil; {
		case err != nil && !t.told:
			lost, why = append(lost, topic), err
		case err == nil && t.told:
			back = append(back, topic)
		}
		t.told = err != nil
	}
	slices.Sort(lost)
	slices.Sort(back)
	if len(lost) > 0 {
		k.log.Warn("topics of agents cannot be read: a minute later keys of their teams are answered 503", "topics", lost, "error", why)
	}
	if len(back) > 0 {
		k.log.Info("topics of agents can be read again", "topics", back)
	}
	return others
}

// Find returns whose key has a hash, if it is for a source. The error is a *[verify.Error]: of reason NotReady where the keys are not known.
func (k *Keeper) Find(name, source string, hash [sha256.Size]byte) (verify.Caller, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	t := k.teams[Topic(name)]
	switch {
	case t == nil || t.fresh.IsZero():
		return verify.Caller{}, &verify.Error{Reason: verify.NotReady, Detail: "the agents' keys in topic " + Topic(name) + " have not been read yet"}
	case time.Since(t.fresh) > KnownFor:
		return verify.Caller{}, &verify.Error{Reason: verify.NotReady,
			Detail: fmt.Sprintf("topic %s could not be read to its end for %s, so a revocation would not be known", Topic(name), KnownFor)}
	}
	a, ok := t.byHash[hash]
	switch {
	case !ok:
		return verify.Caller{}, &verify.Error{Reason: verify.Mismatch, Detail: "no agent of the team has this key, or it was revoked"}
	case !slices.Contains(a.Sources, source):
		return verify.Caller{}, &verify.Error{Reason: verify.Mismatch, Detail: "the key of agent " + a.Name + " is not for this source"}
	}
	return verify.Caller{Name: a.Name, Types: a.Types}, nil
}
