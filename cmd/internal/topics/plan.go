package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// Verb is what Apply does with a topic.
type Verb string

const (
	Create  Verb = "create"
	Alter   Verb = "alter"
	Keep    Verb = "ok"      // the topic is as it should be
	Differs Verb = "differs" // the topic is left as it is: the detail says why, and how to change it
	Refused Verb = "refused" // the topic breaks a promise, and cannot be altered here
	Unknown Verb = "unknown" // the configuration has no such topic, though it has a name like ours
	Denied  Verb = "denied"  // the brokers do not let this user look at the topic: the detail names the right that is missing
)

// Change is what Apply does with one topic.
type Change struct {
	Topic      string `json:"topic"`
	Action     Verb   `json:"action"`
	Partitions int32  `json:"partitions"` // that the topic has, or is created with
	Detail     string `json:"detail"`     // what differs and what is done about it
	// Settings has each setting that is not as it should be, by name; of a topic that is created, all of them.
	Settings []Setting `json:"settings,omitempty"`

	want  Topic
	keeps string            // its retention.ms, where another is configured
	alter map[string]string // settings to change, with their new values

	compacts bool // it is compacted, and must not be
}

// Setting is what Apply does with a setting of a topic, partitions and replication among them.
type Setting struct {
	Name string `json:"name"`
	Is   string `json:"is"` // empty: there is no topic yet
	Want string `json:"want"`
	Set  bool   `json:"set"`           // Apply sets it; else it stays
	Why  string `json:"why,omitempty"` // it stays, and what can be done
}

// Plan compares the topics that exist with those that should, and returns a change for each of these, in their order. One that may not be looked
// at is [Denied], and keeps back no other; see [Lacking].
func Plan(ctx context.Context, cl *kgo.Client, wanted []Topic) ([]Change, error) {
	changes, _, _, err := look(ctx, cl, wanted)
	return changes, err
}

// look is Plan with the descriptions and the settings of the topics that exist.
func look(ctx context.Context, cl *kgo.Client, wanted []Topic) (changes []Change, details kadm.TopicDetails, configs map[string]map[string]string, err error) {
	denied, err := deniedOf(ctx, cl, wanted)
	if err != nil {
		return nil, nil, nil, err
	}
	var names, existing []string
	for _, w := range wanted {
		if denied[w.Name] == "" {
			names = append(names, w.Name)
		}
	}
	adm := kadm.NewClient(cl)
	if len(names) > 0 { // none would be all
		// Asking for authorized operations makes kadm bypass the client's metadata cache, which may be seconds old.
		if details, err = adm.ListTopics(kadm.WithAuthorizedOps(ctx), names...); err != nil {
			return nil, nil, nil, unavailable("list topics", err)
		}
	}
	for _, d := range details.Sorted() {
		switch {
		case d.Err == nil:
			existing = append(existing, d.Topic)
		case !errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			return nil, nil, nil, unavailable("describe topic "+d.Topic, d.Err)
		}
	}
	if configs, err = describe(ctx, adm, existing); err != nil {
		return nil, nil, nil, err
	}
	changes = make([]Change, len(wanted))
	for i, w := range wanted {
		switch lacks := denied[w.Name]; {
		case lacks != "":
			changes[i] = Change{Topic: w.Name, Action: Denied, Detail: lacks, want: w}
		case slices.Contains(existing, w.Name):
			changes[i] = compareTopic(w, details[w.Name], configs[w.Name])
		default:
			changes[i] = Change{Topic: w.Name, Action: Create, Partitions: w.Partitions, want: w,
				Detail: fmt.Sprintf("%d partitions, replication %d", w.Partitions, w.Replication), Settings: settingsOf(w)}
		}
	}
	return changes, details, configs, nil
}

// settingsOf returns everything that a topic is created with.
func settingsOf(w Topic) []Setting {
	list := []Setting{{Name: partitions, Want: strconv.Itoa(int(w.Partitions)), Set: true}, {Name: replication, Want: strconv.Itoa(int(w.Replication)), Set: true}}
	for _, key := range slices.Sorted(maps.Keys(w.Configs)) {
		list = append(list, Setting{Name: key, Want: w.Configs[key], Set: true})
	}
	return list
}

// Names of settings that are none of Kafka's configs.
const (
	partitions  = "partitions"
	replication = "replication"
)

// unavailable is the error of a request to the brokers that has failed.
func unavailable(op string, err error) error {
	return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: err}
}

// deniedOf returns which right is missing, in words, of each topic that the brokers do not let this client look at. kadm ends at the first of them,
// so that what one team lacks would hold up all others.
func deniedOf(ctx context.Context, cl *kgo.Client, wanted []Topic) (map[string]string, error) {
	found := map[string]string{}
	look := func(name, operation string, code int16) {
		if right, ok := errors.AsType[*record.Right](record.Lacks(cl, operation, "topic "+name, kerr.ErrorForCode(code))); ok {
			found[name] = right.Lack()
		}
	}
	names, configs := make([]string, len(wanted)), kmsg.NewPtrDescribeConfigsRequest()
	for i, w := range wanted {
		names[i] = w.Name
	}
	if len(names) == 0 {
		return found, nil
	}
	topics, err := record.Topics(ctx, cl, names)
	if err != nil {
		return nil, unavailable("list topics", err)
	}
	for name, t := range topics {
		if look(name, "Describe", t.ErrorCode); t.ErrorCode == 0 {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{cleanupPolicy} // one is enough to be refused
			configs.Resources = append(configs.Resources, r)
		}
	}
	if len(configs.Resources) == 0 {
		return found, nil
	}
	settings, err := configs.RequestWith(ctx, cl)
	if err != nil {
		return nil, unavailable("describe the topics' settings", err)
	}
	for _, r := range settings.Resources {
		look(r.ResourceName, "DescribeConfigs", r.ErrorCode)
	}
	return found, nil
}

// describe returns the settings of topics, by topic and setting.
func describe(ctx context.Context, adm *kadm.Client, names []string) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	if len(names) == 0 {
		return out, nil
	}
	list, err := adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, unavailable("describe the topics' settings", record.Lacks(nil, "DescribeConfigs", "topic "+strings.Join(names, ", "), err))
	}
	for _, r := range list {
		if r.Err != nil {
			return nil, unavailable("describe the settings of "+r.Name, r.Err)
		}
		out[r.Name] = map[string]string{}
		for _, c := range r.Configs {
			out[r.Name][c.Key] = c.MaybeValue()
		}
	}
	return out, nil
}

// compareTopic returns the change for an existing topic: d is its description, have its settings. What must not be changed here makes the
// topic differ or be refused; the settings that may be changed are altered, unless the topic is refused.
func compareTopic(w Topic, d kadm.TopicDetail, have map[string]string) Change {
	c := Change{Topic: w.Name, Action: Keep, Partitions: int32(len(d.Partitions)), want: w, alter: map[string]string{},
		compacts: strings.Contains(have[cleanupPolicy], "compact") && !strings.Contains(w.Configs[cleanupPolicy], "compact")}
	var reasons []string
	// report says what is wrong with a setting that stays: text as a sentence about the topic, why about the setting.
	report := func(v Verb, name, is, want, text, why string) {
		if c.Action != Refused { // a refusal stays
			c.Action = v
		}
		reasons = append(reasons, text)
		c.Settings = append(c.Settings, Setting{Name: name, Is: is, Want: want, Why: why})
	}
	if n := int32(len(d.Partitions)); n != w.Partitions {
		why := fmt.Sprintf("changing the count would move entities between partitions; write topics: {partitions: %d} for this source, or see `forebay topics rekey %s --partitions %d -c FILE`",
			n, w.Name, w.Partitions)
		if w.kind() != "events" {
			why = fmt.Sprintf("it always has one: copy what it has, delete it (kafka-topics.sh --bootstrap-server BROKER --delete --topic %s), and run `forebay topics apply` again", w.Name)
		}
		if w.kind() == "agents" {
			why += "; the agents' keys are gone with it, unless the copy is written back"
		}
		report(Refused, partitions, strconv.Itoa(int(n)), strconv.Itoa(int(w.Partitions)), fmt.Sprintf("has %d partitions, configured are %d: %s", n, w.Partitions, why), why)
	}
	if unfinishedCopy(have) && !unfinishedCopy(w.Configs) {
		why := fmt.Sprintf("looks like a copy that `forebay topics rekey` has not finished (%s %s, %s %s): run that again; where it is none, "+
			"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name %s --add-config %s=%s",
			timestampType, have[timestampType], retention, have[retention], w.Name, timestampType, w.Configs[timestampType])
		report(Refused, timestampType, have[timestampType], w.Configs[timestampType], why, why)
	}
	copies := fewestCopies(d.Partitions)
	if copies != int64(w.Replication) {
		const why = "move it with kafka-reassign-partitions"
		report(Differs, replication, strconv.FormatInt(copies, 10), strconv.Itoa(int(w.Replication)), fmt.Sprintf("has replication %d, configured is %d: %s", copies, w.Replication, why), why)
	}
	for _, key := range slices.Sorted(maps.Keys(w.Configs)) {
		was, known := have[key]
		if !known { // the broker, such as the embedded one, does not have the setting
			continue
		}
		if want, err := strconv.ParseInt(w.Configs[key], 10, 64); key == minInsync && err == nil && want > copies {
			why := fmt.Sprintf("more than its copies (%d): nothing could be written; move the topic first, or write %s", copies, w.written("replication", strconv.FormatInt(copies, 10)))
			report(Refused, key, was, w.Configs[key], fmt.Sprintf("%s would be %d, %s", key, want, why), why)
			continue
		}
		if was == w.Configs[key] {
			continue
		}
		if key == retention {
			c.keeps = was
		}
		if why := whyKeep(key, was, w.Configs[key], copies); why != "" {
			text := fmt.Sprintf("%s is %s, configured is %s: %s", key, was, w.Configs[key], why)
			if key == retention {
				why = fmt.Sprintf("shortening that would delete events, so it stays; write %s, or "+
					"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name %s --add-config %s=%s",
					w.written("retention", writable(was)), w.Name, key, w.Configs[key])
				text = fmt.Sprintf("keeps events for %s, configured is %s: %s", lasting(was), lasting(w.Configs[key]), why)
			}
			report(Differs, key, was, w.Configs[key], text, why)
			continue
		}
		c.alter[key] = w.Configs[key]
	}
	if c.Action == Refused {
		clear(c.alter)
	}
	for _, key := range slices.Sorted(maps.Keys(c.alter)) {
		c.Action = Alter
		change := fmt.Sprintf("%s %s -> %s", key, have[key], c.alter[key])
		if key == retention {
			change += fmt.Sprintf(" (%s -> %s)", lasting(have[key]), lasting(c.alter[key]))
		}
		reasons = append(reasons, change)
		c.Settings = append(c.Settings, Setting{Name: key, Is: have[key], Want: c.alter[key], Set: true})
	}
	c.Detail = strings.Join(reasons, "; ")
	return c
}

// unfinishedCopy reports whether a topic has the settings of a copy that [Rekey] has not finished. Callers must not correct these
// settings: nothing else says that the copy is unfinished.
func unfinishedCopy(configs map[string]string) bool { return hasAll(configs, unfinishedCopyConfigs) }

// fewestCopies returns how many copies each partition has at least.
func fewestCopies(ps kadm.PartitionDetails) int64 {
	fewest := int64(math.MaxInt64)
	for _, p := range ps {
		fewest = min(fewest, int64(len(p.Replicas)))
	}
	return fewest
}

// lasting returns a retention.ms as people read it.
func lasting(ms string) string {
	n, err := strconv.ParseInt(ms, 10, 64)
	switch {
	case err != nil:
		return ms + " ms"
	case n < 0:
		return "ever"
	}
	return config.Duration(time.Duration(n) * time.Millisecond).String()
}

// writable returns a retention.ms as the file has it; the file has no word for ever.
func writable(ms string) string {
	if lasting(ms) == "ever" {
		return "3650d"
	}
	return lasting(ms)
}

// whyKeep returns why a setting is not changed, or "" if changing it is safe: the topic then keeps more, or for longer, or is safer, or
// can be written again.
func whyKeep(key, was, want string, copies int64) string {
	has, errHas := strconv.ParseInt(was, 10, 64)
	wants, errWants := strconv.ParseInt(want, 10, 64)
	if errHas != nil || errWants != nil {
		return ""
	}
	lowers := wants < has
	switch {
	case key == retention && (lowers || has < 0): // negative: for ever
		return "shortening it deletes events"
	case key == maxMessage && lowers:
		return "a larger limit is harmless"
	case key == minInsync && lowers && has <= copies:
		return "a stricter value is kept"
	}
	return ""
}

// Apply makes the changes of [Plan] and returns them. A topic whose change is refused, or which may not be looked at, is left as it is, and does not
// affect the others; see [Problems].
func Apply(ctx context.Context, cl *kgo.Client, wanted []Topic, dryRun bool) ([]Change, error) {
	changes, err := Plan(ctx, cl, wanted)
	if err != nil || dryRun {
		return changes, err
	}
	adm := kadm.NewClient(cl)
	for i := range changes {
		switch c := &changes[i]; c.Action {
		case Create:
			err = create(ctx, adm, c)
		case Alter:
			err = alter(ctx, adm, c)
		}
		if err != nil {
			return changes[:i], err
		}
	}
	return changes, waitForLeaders(ctx, adm, changes)
}

// create creates the topic. If the broker does not know one of the settings, as the embedded one does not know unclean election, the
// topic is created without it.
func create(ctx context.Context, adm *kadm.Client, c *Change) error {
	configs := map[string]*string{}
	for k, v := range c.want.Configs {
		configs[k] = &v
	}
	_, err := adm.CreateTopic(ctx, c.want.Partitions, c.want.Replication, configs, c.Topic)
	if errors.Is(err, kerr.InvalidConfig) {
		delete(configs, unclean)
		if _, err = adm.CreateTopic(ctx, c.want.Partitions, c.want.Replication, configs, c.Topic); err == nil {
			c.Detail += "; without " + unclean + ", which this broker does not have"
		}
	}
	switch {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return nil // it was created after Plan looked; the next run compares it
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return schemas.Errorf(schemas.Invalid, "create topic "+c.Topic, "the cluster has fewer brokers than replication %d: %w", c.want.Replication, err)
	case err != nil:
		return unavailable("create topic "+c.Topic, record.Lacks(nil, "Create", "topic "+c.Topic, err))
	}
	return nil
}

// alter sets the settings of c.alter, and returns when the brokers have them.
func alter(ctx context.Context, adm *kadm.Client, c *Change) error {
	var list []kadm.AlterConfig
	for _, key := range slices.Sorted(maps.Keys(c.alter)) {
		value := c.alter[key]
		list = append(list, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	responses, err := adm.AlterTopicConfigs(ctx, list, c.Topic)
	if err == nil {
		_, err = responses.On(c.Topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	if err != nil {
		return unavailable("alter topic "+c.Topic, record.Lacks(nil, "AlterConfigs", "topic "+c.Topic, err))
	}
	waitForSettings(ctx, adm, c.Topic, c.alter)
	return nil
}

// Problems returns an error with all changes that are refused, and what [Lacking] returns; nil if there is neither.
func Problems(changes []Change) error {
	errs := []error{Lacking(changes)}
	for _, c := range changes {
		if c.Action == Refused {
			errs = append(errs, schemas.Errorf(schemas.Conflict, "topic "+c.Topic, "%s", c.Detail))
		}
	}
	return errors.Join(errs...)
}

// Lacking returns an error with all rights that are missing to look at topics; nil if none is. Its kind is Unavailable.
func Lacking(changes []Change) error {
	var lacks []string
	for _, c := range changes {
		if c.Action == Denied {
			lacks = append(lacks, c.Detail)
		}
	}
	return lacking(lacks)
}

func lacking(lacks []string) error {
	if len(lacks) == 0 {
		return nil
	}
	return schemas.Errorf(schemas.Unavailable, "look at topics", "`forebay acls export` prints what each role needs: %s", strings.Join(lacks, ", "))
}
