package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a broker with topics of these teams.
func cluster(t *testing.T, teams ...string) (*kfake.Cluster, []kgo.Opt) {
	t.Helper()
	var names []string
	for _, team := range teams {
		names = append(names, Topic(team))
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, names...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}
}

// stopping returns a keeper that runs until stop is called.
func stopping(t *testing.T, options []kgo.Opt, teams ...string) (k *Keeper, stop func()) {
	t.Helper()
	k = NewKeeper(options, slog.New(slog.DiscardHandler))
	k.Want(teams)
	return k, run(t, k)
}

// run runs a keeper until stop is called.
func run(t *testing.T, k *Keeper) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func keeper(t *testing.T, options []kgo.Opt, teams ...string) *Keeper {
	t.Helper()
	k, stop := stopping(t, options, teams...)
	t.Cleanup(stop)
	return k
}

// until asks for a key until it is answered so; empty is: it opens.
func until(t *testing.T, k *Keeper, team, source, key string, want verify.Reason) verify.Caller {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := k.Find(team, source, sha256.Sum256([]byte(key)))
		e, _ := errors.AsType[*verify.Error](err)
		if got := (err == nil); got == (want == "") && (got || e.Reason == want) {
			return c
		}
		if time.Now().After(deadline) {
			t.Fatalf("still %+v %v, want %q", c, err, want)
		}
	}
}

func made(t *testing.T, topics *Topics, a Agent) string {
	t.Helper()
	a.CreatedAt, a.CreatedBy, a.Reason = time.Unix(1_800_000_000, 0).UTC(), "ann@desk", "test"
	key, err := topics.Create(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// A key opens what it is for, soon after it was made, in intakes that began before and after; and nothing within a second of its revocation,
// while others ask on.
func TestKeysAreKnownAndRevokedAtOnce(t *testing.T) {
	t.Parallel()
	_, options := cluster(t, "acme", "other")
	topics := NewTopics(options)
	before := keeper(t, options, "acme", "other")
	planner := made(t, topics, Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}, Types: []string{"com.acme.*"}})
	coder := made(t, topics, Agent{Team: "acme", Name: "coder", Sources: []string{"agents", "more"}})
	after := keeper(t, options, "acme")
	for _, k := range []*Keeper{before, after} {
		if c := until(t, k, "acme", "agents", planner, ""); c.Name != "planner" || !slices.Equal(c.Types, []string{"com.acme.*"}) {
			t.Errorf("%+v", c)
		}
		if c := until(t, k, "acme", "more", coder, ""); c.Name != "coder" || c.Types != nil {
			t.Errorf("%+v", c)
		}
		until(t, k, "acme", "more", planner, verify.Mismatch)
		until(t, k, "acme", "agents", planner+"x", verify.Mismatch)
		until(t, k, "acme", "agents", "", verify.Mismatch)
	}
	until(t, before, "other", "agents", planner, verify.Mismatch)
	until(t, after, "other", "agents", planner, verify.NotReady)

	var all sync.WaitGroup
	asking, stop := context.WithCancel(t.Context())
	for range 4 {
		all.Go(func() {
			for asking.Err() == nil {
				if _, err := before.Find("acme", "agents", sha256.Sum256([]byte(coder))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	kept, err := topics.Revoke(t.Context(), "acme", "planner", "bob@desk", "leaked", time.Now())
	revoked := time.Now()
	if err != nil || kept.RevokedBy != "bob@desk" || kept.CreatedBy != "ann@desk" {
		t.Fatalf("%+v %v", kept, err)
	}
	until(t, before, "acme", "agents", planner, verify.Mismatch)
	until(t, after, "acme", "agents", planner, verify.Mismatch)
	if took := time.Since(revoked); took > time.Second {
		t.Errorf("the key opened for %s", took)
	}
	stop()
	all.Wait()

	list, err := topics.List(t.Context(), "acme")
	if err != nil || len(list) != 2 || list[0].Name != "coder" || list[1].RevokedAt == nil || list[1].RevokedReason != "leaked" {
		t.Errorf("%+v %v", list, err)
	}
	if text, _ := json.Marshal(list); strings.Contains(string(text), "sha256") || strings.Contains(string(text), planner) {
		t.Errorf("the list has keys: %s", text)
	}
	if _, err := topics.Revoke(t.Context(), "acme", "planner", "", "", time.Now()); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("twice: %v", err)
	}
	if _, err := topics.Revoke(t.Context(), "acme", "nobody", "", "", time.Now()); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("nobody: %v", err)
	}
	if _, err := topics.Create(t.Context(), Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}}); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("the name of one that was revoked: %v", err)
	}
}

// Of two that are made at once under one name, one has a key that opens.
func TestTwoOfOneName(t *testing.T) {
	t.Parallel()
	_, options := cluster(t, "acme")
	topics := NewTopics(options)
	var all sync.WaitGroup
	keys := make([]string, 4)
	for n := range keys {
		all.Go(func() {
			key, err := topics.Create(t.Context(), Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}})
			if err != nil && schemas.KindOf(err) != schemas.Conflict {
				t.Error(err)
			}
			keys[n] = key
		})
	}
	all.Wait()
	k := keeper(t, options, "acme")
	opens := 0
	for _, key := range keys {
		if key == "" {
			continue
		}
		until(t, k, "acme", "agents", "x", verify.Mismatch)
		if _, err := k.Find("acme", "agents", sha256.Sum256([]byte(key))); err == nil {
			opens++
		}
	}
	if opens != 1 {
		t.Errorf("%d keys open", opens)
	}
}

// Until all keys were read a delivery is not refused; a topic that is created later is found.
func TestTopicThatIsMissing(t *testing.T) {
	t.Parallel()
	c, options := cluster(t)
	topics := NewTopics(options)
	k := keeper(t, options, "acme")
	until(t, k, "acme", "agents", "x", verify.NotReady)
	if _, err := topics.List(t.Context(), "acme"); schemas.KindOf(err) != schemas.NotFound || !strings.Contains(err.Error(), "forebay topics apply") {
		t.Error(err)
	}
	if err := c.CreateTopic(Topic("acme"), 1, nil); err != nil {
		t.Fatal(err)
	}
	key := made(t, topics, Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}})
	until(t, k, "acme", "agents", key, "")
	k.Want(nil)
	until(t, k, "acme", "agents", key, verify.NotReady)
	k.Want([]string{"acme"})
	until(t, k, "acme", "agents", key, "")
}

// What nobody has answered for is not known any more: keys that were revoked meanwhile would open.
func TestKeysWithoutBrokers(t *testing.T) {
	t.Parallel()
	_, options := cluster(t, "acme")
	k, stop := stopping(t, options, "acme")
	key := made(t, NewTopics(options), Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}})
	until(t, k, "acme", "agents", key, "")
	hash := sha256.Sum256([]byte(key))
	stop()
	k.teams[Topic("acme")].fresh = time.Now().Add(-KnownFor + time.Second)
	if _, err := k.Find("acme", "agents", hash); err != nil {
		t.Errorf("within %s: %v", KnownFor, err)
	}
	k.teams[Topic("acme")].fresh = time.Now().Add(-KnownFor - time.Second)
	if _, err := k.Find("acme", "agents", hash); err == nil || err.(*verify.Error).Reason != verify.NotReady {
		t.Error(err)
	}
}

// A team whose own topic is not known to be read to its end has no keys a minute later, and the log says so once, whatever the brokers answer for
// other teams.
func TestKeysOfATopicThatCannotBeRead(t *testing.T) {
	t.Parallel()
	refused := func(of kmsg.Key, err *kerr.Error) kfake.Fault {
		return kfake.Fault{Keys: []kmsg.Key{of}, Topic: Topic("acme"), Err: err, Count: -1}
	}
	for name, fault := range map[string]kfake.Fault{
		"may not be read":          refused(kmsg.Fetch, kerr.TopicAuthorizationFailed),
		"may not be described":     refused(kmsg.Metadata, kerr.TopicAuthorizationFailed),
		"is not there":             refused(kmsg.Metadata, kerr.UnknownTopicOrPartition),
		"has a leader that is not": refused(kmsg.ListOffsets, kerr.UnknownServerError),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, options := cluster(t, "acme", "other")
			said := make(chan line, 100)
			k := NewKeeper(options, slog.New(lines{said}))
			k.Want([]string{"acme", "other"})
			t.Cleanup(run(t, k))
			topics := NewTopics(options)
			planner := made(t, topics, Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}})
			kept := made(t, topics, Agent{Team: "other", Name: "kept", Sources: []string{"agents"}})
			until(t, k, "acme", "agents", planner, "")
			until(t, k, "other", "agents", kept, "")

			broken := c.Fault(fault)
			k.Want([]string{"acme", "other"}) // it looks at once
			if got := <-said; got != (line{slog.LevelWarn, "[agents.acme]"}) {
				t.Errorf("%+v is in the log", got)
			}
			sum, now := sha256.Sum256([]byte(planner)), time.Now()
			if fault.Keys[0] == kmsg.Fetch { // until then all of it has been read
				revoked := stored{Agent: Agent{Team: "acme", Name: "planner", RevokedAt: &now}, Hash: hex.EncodeToString(sum[:])}
				if err := topics.put(t.Context(), revoked); err != nil {
					t.Fatal(err)
				}
			}
			k.mu.Lock()
			for _, team := range k.teams {
				team.fresh = team.fresh.Add(-KnownFor)
			}
			k.mu.Unlock()
			k.Want([]string{"acme", "other"})
			until(t, k, "other", "agents", kept, "")
			if _, err := k.Find("acme", "agents", sum); err == nil || err.(*verify.Error).Reason != verify.NotReady {
				t.Errorf("an old key: %v", err)
			}
			broken.Remove()
			k.Want([]string{"acme", "other"})
			if got := <-said; got != (line{slog.LevelInfo, "[agents.acme]"}) {
				t.Errorf("%+v is in the log", got)
			}
		})
	}
}

// line is what the log says of topics.
type line struct {
	level  slog.Level
	topics string
}

// lines is a log.
type lines struct{ said chan<- line }

func (lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l lines) WithGroup(string) slog.Handler          { return l }
func (l lines) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "topics" {
			l.said <- line{r.Level, fmt.Sprint(a.Value)}
		}
		return true
	})
	return nil
}

// Records that are none of ours, or say that they are another team's, make nobody an agent.
func TestRecordsOfStrangers(t *testing.T) {
	t.Parallel()
	_, options := cluster(t, "acme")
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sum := strings.Repeat("0", 64)
	for key, value := range map[string]string{"a": "", "b": "{", "c": `{"team":"acme","name":"d","key_sha256":"` + sum + `"}`, "e": `{"team":"pay","name":"e","key_sha256":"` + sum + `"}`,
		"f": `{"team":"acme","name":"f","key_sha256":"00"}`, "g": `{"team":"acme","name":"g","key_sha256":"x"}`} {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: Topic("acme"), Key: []byte(key), Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	topics := NewTopics(options)
	key := made(t, topics, Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}})
	k := keeper(t, options, "acme")
	until(t, k, "acme", "agents", key, "")
	if list, err := topics.List(t.Context(), "acme"); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
}

func TestWhatAnAgentNeeds(t *testing.T) {
	t.Parallel()
	for what, a := range map[string]Agent{
		"is none":    {Name: "Planner", Sources: []string{"a"}},
		"one source": {Name: "planner"},
		"one type":   {Name: "planner", Sources: []string{"a"}, Types: []string{""}},
	} {
		if err := Check(a); schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A topic that is deleted and created again has other keys: those of the one before end, whatever the offsets are.
func TestTopicThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	_, options := cluster(t, "acme", "other")
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	adm, topics := kadm.NewClient(client), NewTopics(options)
	k := keeper(t, options, "acme", "other")
	agent := func(team, name string) Agent { return Agent{Team: team, Name: name, Sources: []string{"agents"}} }
	kept := made(t, topics, agent("other", "kept"))
	old := []string{made(t, topics, agent("acme", "planner")), made(t, topics, agent("acme", "coder")), made(t, topics, agent("acme", "tester"))}
	for _, names := range [][]string{{"planner"}, {"a", "b", "c", "d", "e"}} { // a topic that is shorter, and one that is longer
		for _, key := range old {
			until(t, k, "acme", "agents", key, "")
		}
		if _, err := adm.DeleteTopic(t.Context(), Topic("acme")); err != nil {
			t.Fatal(err)
		}
		if _, err := adm.CreateTopic(t.Context(), 1, 1, nil, Topic("acme")); err != nil {
			t.Fatal(err)
		}
		var now []string
		for _, name := range names {
			now = append(now, made(t, topics, agent("acme", name)))
		}
		for _, key := range now {
			until(t, k, "acme", "agents", key, "")
		}
		for _, key := range old {
			until(t, k, "acme", "agents", key, verify.Mismatch)
		}
		until(t, k, "other", "agents", kept, "")
		old = now
	}
}

// A topic that was cut is read again: what it lacks opens nothing, and a revocation is heard of whose offset a record had that is gone.
func TestTopicThatWasCut(t *testing.T) {
	t.Parallel()
	_, options := cluster(t, "acme")
	topics := NewTopics(options)
	k := keeper(t, options, "acme")
	planner := made(t, topics, Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}})
	until(t, k, "acme", "agents", planner, "")
	k.mu.Lock() // it has read more than the topic has now
	team := k.teams[Topic("acme")]
	team.byHash[sha256.Sum256([]byte("gone"))] = Agent{Name: "gone", Sources: []string{"agents"}}
	team.next += 3
	k.mu.Unlock()
	if _, err := topics.Revoke(t.Context(), "acme", "planner", "bob@desk", "leaked", time.Now()); err != nil {
		t.Fatal(err)
	}
	k.Want([]string{"acme"}) // it looks at once
	until(t, k, "acme", "agents", planner, verify.Mismatch)
	until(t, k, "acme", "agents", "gone", verify.Mismatch)
}

// The client may hear of the cut first.
func TestLostRecordsOfATopic(t *testing.T) {
	t.Parallel()
	k := NewKeeper(nil, slog.New(slog.DiscardHandler))
	k.Want([]string{"acme"})
	k.teams[Topic("acme")].fresh = time.Now()
	lost := kgo.FetchPartition{Err: &kgo.ErrDataLoss{Topic: Topic("acme"), ConsumedTo: 9, ResetTo: 4}}
	cut := k.take(t.Context(), kgo.Fetches{{Topics: []kgo.FetchTopic{{Topic: Topic("acme"), Partitions: []kgo.FetchPartition{lost}}}}})
	if _, err := k.Find("acme", "agents", sha256.Sum256(nil)); !cut || err == nil || err.(*verify.Error).Reason != verify.NotReady {
		t.Errorf("cut %v, %v", cut, err)
	}
}

// TestLacksARight: what the brokers refuse is told with the right that is missing, and whose.
func TestLacksARight(t *testing.T) {
	t.Parallel()
	c, options := cluster(t, "acme")
	topics := NewTopics(append(options, kgo.WithHooks(record.User("user rightless"))))
	made(t, topics, Agent{Team: "acme", Name: "planner", Sources: []string{"agents"}})
	for _, of := range []struct {
		request kmsg.Key
		right   string
	}{{kmsg.Metadata, "Read"}, {kmsg.ListOffsets, "Read"}, {kmsg.Fetch, "Read"}, {kmsg.Produce, "Write"}} {
		fault := c.Fault(kfake.Fault{Keys: []kmsg.Key{of.request}, Topic: Topic("acme"), Err: kerr.TopicAuthorizationFailed, Count: -1})
		_, err := topics.Revoke(t.Context(), "acme", "planner", "bob@desk", "leaked", time.Now())
		fault.Remove()
		want := record.Right{User: "user rightless", Operation: of.right, Resource: "topic agents.acme"}
		if got, ok := errors.AsType[*record.Right](err); !ok || got.Lack() != want.Lack() {
			t.Errorf("%s is refused: %v", kmsg.NameForKey(int16(of.request)), err)
		}
	}
}
