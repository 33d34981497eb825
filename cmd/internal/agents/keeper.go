package agents

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/ingest/verify"
)

// Times of a Keeper.
const (
	// KnownFor is how long keys are taken that were read, while no broker answers: a revocation would not be heard of.
	KnownFor = time.Minute
	askEvery = 500 * time.Millisecond // how long a broker keeps a question for news, which it answers at once when there are any
	// lookEvery is how often it is looked whether a topic is another one by now, that was deleted and created again.
	lookEvery = 5 * time.Second
)

// Keeper knows the agents of the teams that it is told of, and hears of each change at once. Safe for concurrent use.
type Keeper struct {
	options []kgo.Opt
	log     *slog.Logger
	heard   atomic.Int64  // when a broker last answered, in Unix nanoseconds
	wanted  chan struct{} // the teams are others

	mu    sync.RWMutex
	teams map[string]*team // by topic
}

// team has the agents of one team.
type team struct {
	byHash map[[sha256.Size]byte]Agent
	hashes map[string][sha256.Size]byte // by name
	next   int64                        // offset
	end    int64                        // of the topic when the reading began; below 0: not known yet
	topic  kadm.TopicID                 // that is read; zero: not known yet
}

func newTeam() *team {
	return &team{byHash: map[[sha256.Size]byte]Agent{}, hashes: map[string][sha256.Size]byte{}, end: -1}
}

// NewKeeper makes a keeper of the agents in the cluster that the options lead to. It knows of none until it is told of teams and runs.
func NewKeeper(options []kgo.Opt, log *slog.Logger) *Keeper {
	return &Keeper{options: options, log: log, teams: map[string]*team{}, wanted: make(chan struct{}, 1)}
}

// answers notes when a broker has answered a question for news.
type answers struct{ at *atomic.Int64 }

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (a answers) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key == int16(kmsg.Fetch) && e.Err() == nil {
		a.at.Store(time.Now().UnixNano())
	}
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
	var looked time.Time
	for ctx.Err() == nil {
		want, known := k.want()
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
			if client, err = kgo.NewClient(append(slices.Clone(k.options), kgo.FetchMaxWait(askEvery), kgo.MetadataMinAge(time.Second), kgo.WithHooks(answers{&k.heard}))...); err != nil {
				return err
			}
		}
		if !known || time.Since(looked) >= lookEvery {
			if looked = time.Now(); k.findOthers(ctx, client) { // whose offsets the client would read by the topic before
				hangUp()
				reads = map[string]*team{}
				continue
			}
		}
		follow(client, reads, want)
		reads = want
		k.poll(ctx, client, known)
		k.findEnds(ctx, client)
	}
	return nil
}

// want returns the teams that are to be read, by topic, and whether the ends of all are known.
func (k *Keeper) want() (teams map[string]*team, known bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	known = true
	for _, t := range k.teams {
		known = known && t.end >= 0
	}
	return maps.Clone(k.teams), known
}

// follow has a client that reads some teams read others, those that it has not read before from their topics' starts.
func follow(client *kgo.Client, reads, want map[string]*team) {
	for topic, t := range reads {
		if want[topic] != t {
			client.RemoveConsumePartitions(map[string][]int32{topic: {0}})
		}
	}
	for topic, t := range want {
		if reads[topic] != t {
			client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
		}
	}
}

// poll takes what comes next, and returns when other teams are wanted, when it is time to look at the topics, or before long where the end of one is not known yet.
func (k *Keeper) poll(ctx context.Context, client *kgo.Client, known bool) {
	turn, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := lookEvery
	if !known {
		wait = askEvery
	}
	defer time.AfterFunc(wait, cancel).Stop()
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		k.take(client.PollFetches(turn))
	}()
	select {
	case <-polled:
	case <-k.wanted:
		cancel()
		<-polled
	}
}

// take takes what was read.
func (k *Keeper) take(fetches kgo.Fetches) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fetches.EachRecord(func(r *kgo.Record) {
		t := k.teams[r.Topic]
		if t == nil || r.Offset < t.next {
			return
		}
		t.next = r.Offset + 1
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
	})
}

// findOthers asks which topics are read. One that was deleted and created again has its team begin anew; others reports whether there was any.
func (k *Keeper) findOthers(ctx context.Context, client *kgo.Client) (others bool) {
	asked, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	k.mu.RLock()
	topics := slices.Collect(maps.Keys(k.teams))
	k.mu.RUnlock()
	details, err := kadm.NewClient(client).ListTopics(asked, topics...)
	if err != nil {
		k.log.Debug("the topics of agents cannot be looked at yet", "error", err)
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for topic, t := range k.teams {
		id := details[topic].ID
		switch {
		case id == (kadm.TopicID{}): // deleted, or the broker has none
		case t.topic == (kadm.TopicID{}):
			t.topic = id
		case t.topic != id:
			k.log.Warn("a topic of agents was deleted and created again: the keys of before end", "topic", topic)
			k.teams[topic] = newTeam()
			k.teams[topic].topic = id
			others = true
		}
	}
	return others
}

// findEnds asks where the topics end that are not known to be read to their end.
func (k *Keeper) findEnds(ctx context.Context, client *kgo.Client) {
	k.mu.RLock()
	var topics []string
	for topic, t := range k.teams {
		if t.end < 0 {
			topics = append(topics, topic)
		}
	}
	k.mu.RUnlock()
	for _, topic := range topics {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		s, err := spanOf(asked, client, topic)
		cancel()
		if err != nil {
			k.log.Debug("the agents of a team cannot be read yet", "topic", topic, "error", err)
			continue
		}
		k.mu.Lock()
		if t := k.teams[topic]; t != nil {
			t.end = s.end
			t.next = max(t.next, s.start)
		}
		k.mu.Unlock()
	}
}

// Find returns whose key has a hash, if it is for a source. The error is a *[verify.Error]: of reason NotReady where the keys are not known.
func (k *Keeper) Find(name, source string, hash [sha256.Size]byte) (verify.Caller, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	t := k.teams[Topic(name)]
	switch silent := time.Since(time.Unix(0, k.heard.Load())); {
	case t == nil || t.end < 0 || t.next < t.end:
		return verify.Caller{}, &verify.Error{Reason: verify.NotReady, Detail: "the agents' keys in topic " + Topic(name) + " have not been read yet"}
	case silent > KnownFor:
		return verify.Caller{}, &verify.Error{Reason: verify.NotReady, Detail: fmt.Sprintf("no broker has answered for %s, so a revocation would not be known", KnownFor)}
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
