// Package agents keeps the keys of agents (preset agent) where each intake finds them without Postgres: in the topic agents.<team>, which is
// compacted, a record an agent. A record has the hash of the key, what the key is for, and who made and revoked it why.
//
//	forebay agents create ──▶ agents.<team> ──▶ Keeper of each intake ──▶ verify.AgentKey
//
// Whoever may write to the topic makes agents; `forebay acls export` gives that to the admin alone.
package agents

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Prefix begins the names of the topics.
const Prefix = "agents."

// Topic returns the topic of a team's agents. It has one partition.
func Topic(team string) string { return Prefix + team }

// Agent is one that has a key, or had one: no other gets its name.
type Agent struct {
	Team    string   `json:"team"`
	Name    string   `json:"name"`
	Sources []string `json:"sources"`
	Types   []string `json:"types"` // globs; null: all

	CreatedAt     time.Time  `json:"created_at"`
	CreatedBy     string     `json:"created_by"`
	Reason        string     `json:"reason"`
	RevokedAt     *time.Time `json:"revoked_at"`
	RevokedBy     string     `json:"revoked_by,omitempty"`
	RevokedReason string     `json:"revoked_reason,omitempty"`
}

// stored is an agent as its record has it.
type stored struct {
	Agent
	Hash string `json:"key_sha256"`
}

// hash returns the hash of the key; false: the record is none of ours.
func (s *stored) hash() (h [sha256.Size]byte, ok bool) {
	raw, err := hex.DecodeString(s.Hash)
	return h, err == nil && copy(h[:], raw) == len(h) && len(raw) == len(h)
}

// read returns the agent of a record; false: there is none in it.
func read(r *kgo.Record) (s stored, ok bool) {
	if json.Unmarshal(r.Value, &s) != nil || s.Name != string(r.Key) || Topic(s.Team) != r.Topic {
		return s, false
	}
	_, ok = s.hash()
	return s, ok
}

// Topics are the topics of agents in a cluster. Commands use them; an intake has a [Keeper].
type Topics struct{ options []kgo.Opt }

// NewTopics returns those of the cluster that the options lead to.
func NewTopics(options []kgo.Opt) *Topics { return &Topics{options} }

// List returns a team's agents by their names.
func (t *Topics) List(ctx context.Context, team string) ([]Agent, error) {
	all, err := t.all(ctx, team)
	var list []Agent
	for _, s := range all {
		list = append(list, s.Agent)
	}
	slices.SortFunc(list, func(a, b Agent) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// mostTypes bounds the types of a key: they are kept with what the agent sends in vain.
const mostTypes = 4096

// Check returns an error of kind Invalid where an agent cannot be made so.
func Check(a Agent) error {
	switch {
	case !verify.IsAgentName(a.Name):
		return schemas.Errorf(schemas.Invalid, "", "the name of an agent is at most 40 of a-z, 0-9, dot, _ and -, such as planner; %.60q is none", a.Name)
	case len(a.Sources) == 0:
		return schemas.Errorf(schemas.Invalid, "", "a key is for one source at least")
	case len(strings.Join(a.Types, "")) > mostTypes:
		return schemas.Errorf(schemas.Invalid, "", "the types of a key take %d characters at most: say them shorter, with *", mostTypes)
	case a.Types != nil && (len(a.Types) == 0 || slices.Contains(a.Types, "")):
		return schemas.Errorf(schemas.Invalid, "", "a key is for one type of event at least, or for all")
	}
	return nil
}

// Create makes a key for an agent and returns it; it is nowhere else. Kinds: Conflict if the team has or had an agent of that name.
func (t *Topics) Create(ctx context.Context, a Agent) (key string, err error) {
	if err := Check(a); err != nil {
		return "", err
	}
	all, err := t.all(ctx, a.Team)
	if err != nil {
		return "", err
	}
	if _, taken := all[a.Name]; taken {
		return "", taker(a)
	}
	var bits [32]byte
	rand.Read(bits[:]) // never fails
	key = verify.AgentKeyPrefix + base64.RawURLEncoding.EncodeToString(bits[:])
	sum := sha256.Sum256([]byte(key))
	s := stored{Agent: a, Hash: hex.EncodeToString(sum[:])}
	if err := t.put(ctx, s); err != nil {
		return "", err
	}
	if all, err = t.all(ctx, a.Team); err != nil { // somebody else may have made one at the same time: the last counts
		return "", err
	}
	if all[a.Name].Hash != s.Hash {
		return "", taker(a)
	}
	return key, nil
}

func taker(a Agent) error {
	return schemas.Errorf(schemas.Conflict, "", "team %s has or had an agent %s: take another name, so that it stays clear who said what", a.Team, a.Name)
}

// Revoke ends an agent's key, in every intake within a second. The error is of kind NotFound if there is no such agent, Conflict if its key has ended.
func (t *Topics) Revoke(ctx context.Context, team, name, by, reason string, now time.Time) (Agent, error) {
	all, err := t.all(ctx, team)
	if err != nil {
		return Agent{}, err
	}
	s, ok := all[name]
	switch {
	case !ok:
		return Agent{}, schemas.Errorf(schemas.NotFound, "", "team %s has no agent %s: `forebay agents list` has them", team, name)
	case s.RevokedAt != nil:
		return s.Agent, schemas.Errorf(schemas.Conflict, "", "the key of agent %s was revoked before", name)
	}
	s.RevokedAt, s.RevokedBy, s.RevokedReason = &now, by, reason
	return s.Agent, t.put(ctx, s)
}

// put writes an agent's record, and returns once all in-sync replicas have it.
func (t *Topics) put(ctx context.Context, s stored) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(slices.Clone(t.options), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return err
	}
	defer client.Close()
	r := &kgo.Record{Topic: Topic(s.Team), Key: []byte(s.Name), Value: text}
	return unavailable("write to "+r.Topic, record.Lacks(client, "Write", "topic "+r.Topic, client.ProduceSync(ctx, r).FirstErr()))
}

// all reads a team's topic to its end.
func (t *Topics) all(ctx context.Context, team string) (map[string]stored, error) {
	topic := Topic(team)
	client, err := kgo.NewClient(append(slices.Clone(t.options), from(topic))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	span, err := spanOf(ctx, client, topic)
	if err != nil {
		return nil, unavailable("read "+topic, record.Lacks(client, "Read", "topic "+topic, err))
	}
	found := map[string]stored{}
	for at := span.start; at < span.end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return nil, unavailable("read "+topic, record.Lacks(client, "Read", "topic "+topic, err))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			at = r.Offset + 1
			if s, ok := read(r); ok {
				found[s.Name] = s
			}
		})
	}
	return found, nil
}

// from reads a topic from its start.
func from(topic string) kgo.Opt {
	return kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})
}

type span struct{ start, end int64 }

// spanOf returns where a topic begins and ends. The last record is in the log whatever was compacted, since it is the last of its key.
func spanOf(ctx context.Context, client *kgo.Client, topic string) (s span, err error) {
	adm := kadm.NewClient(client)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return s, err
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return s, err
	}
	start, _ := starts.Lookup(topic, 0)
	end, ok := ends.Lookup(topic, 0)
	if !ok {
		return s, kerr.UnknownTopicOrPartition
	}
	return span{start.Offset, end.Offset}, errors.Join(start.Err, end.Err)
}

// unavailable is the error of what the brokers did not do.
func unavailable(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return schemas.Errorf(schemas.NotFound, op, "the topic is missing: `forebay topics apply -c FILE` creates it")
	}
	return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: err}
}
