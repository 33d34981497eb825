package topics

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

func TestMain(m *testing.M) {
	if os.Getenv("FOREBAY_SOAK") != "1" {
		_ = flag.Set("rapid.checks", "20") // a hundred otherwise
	}
	goleak.VerifyTestMain(m)
}

const file = `version: 1
kafka: {brokers: ["127.0.0.1:9092"]}
postgres: {url: postgres://h/d}
topics: {partitions: 4, replication: 3, retention: 2d}
teams:
  acme:
    sources:
      github: {preset: github, secrets: [s]}
      small: {preset: github, secrets: [s], topics: {partitions: 2, replication: 1, retention: 6h}}
`

func setup(t *testing.T, opts ...kgo.Opt) (*kgo.Client, *kadm.Client, []Topic) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(cluster.ListenAddrs()...))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl, kadm.NewClient(cl), wanted(t, file)
}

func wanted(t *testing.T, text string) []Topic {
	t.Helper()
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return Wanted(c, func(string, string) int64 { return 25 << 20 })
}

func verbs(changes []Change) string {
	var list []string
	for _, c := range changes {
		list = append(list, c.Topic+"="+string(c.Action))
	}
	return strings.Join(list, " ")
}

// check returns what Check finds wrong.
func check(t *testing.T, cl *kgo.Client, want []Topic) error {
	t.Helper()
	_, unfit, err := Check(t.Context(), cl, want, "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return unfit.Err("f.yaml")
}

func TestApplyCreatesWhatIsMissing(t *testing.T) {
	t.Parallel()
	cl, adm, want := setup(t)
	if err := check(t, cl, want); schemas.KindOf(err) != schemas.NotFound {
		t.Errorf("check before apply: %v", err)
	}
	dry, err := Apply(t.Context(), cl, want, true)
	if err != nil {
		t.Fatal(err)
	}
	all := "events.acme.github=create events.acme.small=create quarantine.acme.github=create quarantine.acme.small=create"
	if verbs(dry) != all {
		t.Errorf("dry run says %s", verbs(dry))
	}
	if changes, err := Apply(t.Context(), cl, want, false); err != nil || verbs(changes) != all {
		t.Fatalf("apply after a dry run: %s, %v", verbs(changes), err)
	}
	have, err := describe(t.Context(), adm, []string{"events.acme.github", "events.acme.small"})
	if err != nil {
		t.Fatal(err)
	}
	for topic, configs := range map[string]map[string]string{
		"events.acme.github": {cleanupPolicy: "delete", retention: "172800000", segment: "86400000", minInsync: "2", maxMessage: "26476544", timestampType: "LogAppendTime"},
		"events.acme.small":  {retention: "21600000", segment: "21600000", minInsync: "1"},
	} {
		for key, value := range configs {
			if have[topic][key] != value {
				t.Errorf("%s: %s = %q, want %q", topic, key, have[topic][key], value)
			}
		}
	}
	if err := check(t, cl, want); err != nil {
		t.Errorf("check after apply: %v", err)
	}
	again, err := Apply(t.Context(), cl, want, false)
	if err != nil || strings.Contains(verbs(again), "create") || strings.Contains(verbs(again), "alter") {
		t.Errorf("a second apply does %s, %v", verbs(again), err)
	}
}

func TestApplyMendsSafeDriftOnly(t *testing.T) {
	t.Parallel()
	cl, adm, want := setup(t)
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	set(t, adm, "events.acme.github", map[string]string{cleanupPolicy: "compact", maxMessage: "1048576", retention: "864000000"})
	set(t, adm, "events.acme.small", map[string]string{retention: "3600000"})
	if err := check(t, cl, want); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "cleanup.policy compact -> delete") {
		t.Errorf("check does not refuse a compacted topic: %v", err)
	}
	changes, err := Apply(t.Context(), cl, want, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"cleanup.policy compact -> delete", "max.message.bytes 1048576 -> 26476544"} {
		if !strings.Contains(changes[0].Detail, says) {
			t.Errorf("no %q in %q", says, changes[0].Detail)
		}
	}
	have, err := describe(t.Context(), adm, []string{"events.acme.github", "events.acme.small"})
	if err != nil {
		t.Fatal(err)
	}
	if have["events.acme.github"][retention] != "864000000" || have["events.acme.small"][retention] != "21600000" {
		t.Errorf("retention was shortened, or not lengthened: %v", have)
	}
}

// TestCheckTellsWhatIsCompacted: a topic that loses what it has is told from others that differ, and from agents', which has to be compacted; also where
// it is refused for another reason, and its settings are left alone.
func TestCheckTellsWhatIsCompacted(t *testing.T) {
	t.Parallel()
	cl, adm, _ := setup(t)
	want := wanted(t, file+"      agents: {preset: agent}\n")
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	set(t, adm, "events.acme.github", map[string]string{cleanupPolicy: "compact,delete"})
	set(t, adm, "quarantine.acme.github", map[string]string{maxMessage: "1048576"})
	set(t, adm, "agents.acme", map[string]string{unclean: "true"})
	for i := range want {
		want[i].Partitions++
	}
	_, unfit, err := Check(t.Context(), cl, want, "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if wrong := unfit[w.Name]; !w.Spare && (wrong.Why == "" || wrong.Compacts != (w.Name == "events.acme.github")) {
			t.Errorf("%s: %+v", w.Name, wrong)
		}
	}
	if unfit["agents.acme"].Why == "" {
		t.Errorf("of %d topics none is that of agents", len(want))
	}
}

// TestCheckRefusesProducersTimes: where a producer may say when a record was appended, it moves the clamp of versions and the
// dedupe windows. The command that the refusal names mends it.
func TestCheckRefusesProducersTimes(t *testing.T) {
	t.Parallel()
	cl, adm, want := setup(t)
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	set(t, adm, "events.acme.small", map[string]string{timestampType: "CreateTime"})
	err := check(t, cl, want)
	if schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "events.acme.small: message.timestamp.type CreateTime -> LogAppendTime") ||
		!strings.Contains(err.Error(), "forebay topics apply -c f.yaml") {
		t.Errorf("check of a topic with producers' times: %v", err)
	}
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	if err := check(t, cl, want); err != nil {
		t.Errorf("check after apply: %v", err)
	}
}

// TestNoLimitInBytes: brokers may have one for all topics (log.retention.bytes), which takes acknowledged events away before their time. A process
// starts with it and tells of it, and apply ends it.
func TestNoLimitInBytes(t *testing.T) {
	t.Parallel()
	cl, adm, want := setup(t)
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	set(t, adm, "events.acme.github", map[string]string{mostBytes: "1000"})
	notes, unfit, err := Check(t.Context(), cl, want, "f.yaml")
	if err != nil || len(unfit) > 0 || len(notes) != 1 || !strings.Contains(notes[0], "events.acme.github keeps 1000 bytes of a partition at most") || !strings.Contains(notes[0], "forebay topics apply -c f.yaml") {
		t.Errorf("%q %v %v", notes, unfit, err)
	}
	changes, err := Apply(t.Context(), cl, want, false)
	if err != nil || changes[0].Action != Alter || changes[0].Detail != "retention.bytes 1000 -> -1" {
		t.Errorf("%+v %v", changes[0], err)
	}
	have, err := describe(t.Context(), adm, []string{"events.acme.github"})
	if err != nil || have["events.acme.github"][mostBytes] != "-1" {
		t.Errorf("%v %v", have, err)
	}
}

// TestHalfACopyIsRefused: apply would make a copy that rekey was broken off at look finished.
func TestHalfACopyIsRefused(t *testing.T) {
	t.Parallel()
	cl, adm, want := setup(t)
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	set(t, adm, "events.acme.small", unfinishedCopyConfigs)
	if err := check(t, cl, want); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "`forebay topics rekey` has not finished") {
		t.Errorf("check of half a copy: %v", err)
	}
	changes, err := Apply(t.Context(), cl, want, false)
	if err != nil || schemas.KindOf(Problems(changes)) != schemas.Conflict {
		t.Errorf("apply to half a copy: %v, %v", Problems(changes), err)
	}
	have, err := describe(t.Context(), adm, []string{"events.acme.small"})
	if err != nil || !unfinishedCopy(have["events.acme.small"]) {
		t.Errorf("apply has changed it: %v, %v", have, err)
	}
}

func set(t *testing.T, adm *kadm.Client, topic string, configs map[string]string) {
	t.Helper()
	if err := alter(t.Context(), adm, &Change{Topic: topic, alter: configs}); err != nil {
		t.Fatal(err)
	}
}

func TestPartitionsAreNeverChanged(t *testing.T) {
	t.Parallel()
	cl, adm, want := setup(t)
	if _, err := Apply(t.Context(), cl, want, false); err != nil {
		t.Fatal(err)
	}
	more := wanted(t, strings.Replace(file, "partitions: 4", "partitions: 8", 1))
	changes, err := Apply(t.Context(), cl, more, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := Problems(changes); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("a changed partition count: %v", err)
	}
	details, err := adm.ListTopics(t.Context(), "events.acme.github")
	if err != nil || len(details["events.acme.github"].Partitions) != 4 {
		t.Errorf("the topic has %d partitions, %v", len(details["events.acme.github"].Partitions), err)
	}
	if err := check(t, cl, more); schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("check: %v", err)
	}
}

// TestAdviceCanBeFollowed: topics that are not a source's own have their settings elsewhere in the file, and their count nowhere.
func TestAdviceCanBeFollowed(t *testing.T) {
	t.Parallel()
	cl, adm, _ := setup(t)
	want := wanted(t, file+"      agents: {preset: agent}\n    destinations: {log: {type: log}}\n    subscriptions: {triage: {sources: [github], actions: [{name: a, to: log}]}}\n")
	for name, configs := range map[string]map[string]*string{
		"dead.acme.triage": {retention: new("3456000000")}, "quarantine.acme.github": {retention: new("864000000")}, "agents.acme": {cleanupPolicy: new("compact")},
	} {
		if _, err := adm.CreateTopic(t.Context(), 2, 1, configs, name); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := Plan(t.Context(), cl, want)
	if err != nil {
		t.Fatal(err)
	}
	const move = "move the topic first, or write "
	for name, says := range map[string][]string{
		"dead.acme.triage":       {move + "topics: {replication: 1} for its sources", "so it stays; write retention: {dead: 40d} for this subscription, or"},
		"quarantine.acme.github": {move + "topics: {replication: 1} for this source", "so it stays; write topics: {retention: 10d} for this source, or"},
		"agents.acme":            {move + "topics: {replication: 1} at the top of the file", "the agents' keys are gone with it"},
	} {
		c := changes[slices.IndexFunc(changes, func(c Change) bool { return c.Topic == name })]
		says = append(says, "has 2 partitions, configured are 1: it always has one: copy what it has, delete it (kafka-topics.sh --bootstrap-server BROKER --delete --topic "+name+"), and run `forebay topics apply` again")
		for _, want := range says {
			if c.Action != Refused || !strings.Contains(c.Detail, want) || strings.Contains(c.Detail, "rekey") {
				t.Errorf("%s %s: no %q in %q", c.Action, name, want, c.Detail)
			}
		}
	}
}

// TestCopiesAreEnoughForMinInsync: a topic of one copy does not get min.insync.replicas 2 because the configuration has
// three copies by now: every write would be refused from then on.
func TestCopiesAreEnoughForMinInsync(t *testing.T) {
	t.Parallel()
	cl, adm, _ := setup(t)
	one := wanted(t, strings.Replace(file, "replication: 3", "replication: 1", 1))
	if _, err := Apply(t.Context(), cl, one, false); err != nil {
		t.Fatal(err)
	}
	insync := func() string {
		t.Helper()
		have, err := describe(t.Context(), adm, []string{"events.acme.github"})
		if err != nil {
			t.Fatal(err)
		}
		return have["events.acme.github"][minInsync]
	}
	three := wanted(t, file)
	const why = "min.insync.replicas would be 2, more than its copies (1): nothing could be written; move the topic first, or write topics: {replication: 1} for this source"
	refused := func() {
		t.Helper()
		changes, err := Apply(t.Context(), cl, three, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := Problems(changes); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "kafka-reassign-partitions") {
			t.Errorf("apply: %v", err)
		}
		if err := check(t, cl, three); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), why) {
			t.Errorf("check: %v", err)
		}
	}
	refused()
	if got := insync(); got != "1" {
		t.Errorf("min.insync.replicas is %s now", got)
	}
	// Where it is set so already, nothing can be written: that is not kept for being stricter.
	set(t, adm, "events.acme.github", map[string]string{minInsync: "2"})
	refused()
	if err := check(t, cl, one); err == nil || !strings.Contains(err.Error(), "min.insync.replicas 2 -> 1") {
		t.Errorf("check of a topic that nobody can write: %v", err)
	}
	if _, err := Apply(t.Context(), cl, one, false); err != nil {
		t.Fatal(err)
	}
	if got := insync(); got != "1" {
		t.Errorf("min.insync.replicas is %s after apply", got)
	}
}

func TestReplicationBeyondTheCluster(t *testing.T) {
	t.Parallel()
	cl, _, _ := setup(t)
	_, err := Apply(t.Context(), cl, wanted(t, strings.Replace(file, "replication: 3", "replication: 5", 1)), false)
	if err == nil {
		t.Error("five copies on three brokers were accepted")
	}
}

func TestUnreachableBrokers(t *testing.T) {
	t.Parallel()
	cl, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Check(ctx, cl, wanted(t, file), "f.yaml"); schemas.KindOf(err) != schemas.Unavailable {
		t.Errorf("error = %v, want unavailable", err)
	}
}

// TestCheckOfWhatMayNotBeSeen: a topic that this user has no right to is that topic's own fault, and the others are compared and listed all the same.
func TestCheckOfWhatMayNotBeSeen(t *testing.T) {
	t.Parallel()
	allow := func(name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypePrefixed, Operation: op, Allow: true}
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "root-secret"),
		kfake.User("PLAIN", "taker", "pencil", allow("events.acme.github", kmsg.ACLOperationWrite), allow("events.acme.small", kmsg.ACLOperationWrite),
			allow("events.acme.small", kmsg.ACLOperationDescribeConfigs), allow("quarantine.acme.s", kmsg.ACLOperationWrite)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	as := func(user, password string) *kgo.Client {
		cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.WithHooks(record.User("user "+user)), kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	want, root, taker := wanted(t, file), as("root", "root-secret"), as("taker", "pencil")
	if _, err := Apply(t.Context(), root, want[:3], false); err != nil { // without quarantine.acme.small
		t.Fatal(err)
	}
	set(t, kadm.NewClient(root), "events.acme.small", map[string]string{cleanupPolicy: "compact"})
	_, unfit, err := Check(t.Context(), taker, want, "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(unfit) != 4 || unfit["quarantine.acme.small"] != (Wrong{}) || !unfit["events.acme.small"].Compacts {
		t.Errorf("%+v", unfit)
	}
	for topic, right := range map[string]string{"events.acme.github": "DescribeConfigs", "quarantine.acme.github": "Describe"} {
		err := unfit.Err("f.yaml", topic)
		if schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), "user taker has no right "+right+" on topic "+topic+"; `forebay acls export -c f.yaml`") {
			t.Errorf("%s: %v", topic, err)
		}
	}
	const lacks = "`forebay acls export` prints what each role needs: user taker has no right DescribeConfigs on topic events.acme.github, user taker has no right Describe on topic quarantine.acme.github"
	changes, err := Apply(t.Context(), taker, want, true)
	if got := verbs(changes); err != nil || got != "events.acme.github=denied events.acme.small=alter quarantine.acme.github=denied quarantine.acme.small=create" {
		t.Errorf("%s %v", got, err)
	}
	for _, err := range []error{Lacking(changes), Problems(changes)} {
		if schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), lacks) {
			t.Error(err)
		}
	}
	var text strings.Builder
	if Write(&text, changes); !strings.Contains(text.String(), "! quarantine.acme.github  not looked at\n    user taker has no right Describe on topic quarantine.acme.github\n") ||
		!strings.Contains(text.String(), "2 not looked at") || !Different(changes) {
		t.Error(text.String())
	}
	c, err := config.Load(config.Options{Path: "forebay.yaml", Data: []byte(file)})
	if err != nil {
		t.Fatal(err)
	}
	list, err := List(t.Context(), taker, c, want)
	var states []string
	for _, i := range list {
		states = append(states, i.State)
	}
	if err != nil || strings.Join(states, " ") != "denied differs denied missing" || list[1].Partitions != 2 || list[0].Partitions != 0 {
		t.Errorf("%+v %v", list, err)
	}
	if err := LackingOf(list); schemas.KindOf(err) != schemas.Unavailable || !strings.Contains(err.Error(), lacks) || LackingOf(list[1:2]) != nil {
		t.Error(err)
	}
}

// TestApplyAsksTheBrokers: from the client's cache of metadata a new topic is missing.
func TestApplyAsksTheBrokers(t *testing.T) {
	t.Parallel()
	cl, _, topics := setup(t, kgo.MetadataMinAge(30*time.Minute), kgo.MetadataMaxAge(time.Hour))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := Apply(ctx, cl, topics, false); err != nil {
		t.Error(err)
	}
}
