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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/forebay-io/forebay/schemas"
)

// Verb is what a change does.
type Verb string

const (
	Create  Verb = "create"
	Alter   Verb = "alter"
	Keep    Verb = "ok"
	Differs Verb = "differs" // and is left as it is: the detail says why and how to change it
	Refused Verb = "refused" // breaks a promise and cannot be altered here
)

// Change is what happens to one topic.
type Change struct {
	Topic      string `json:"topic"`
	Action     Verb   `json:"action"`
	Partitions int32  `json:"partitions"`
	Detail     string `json:"detail"`

	want  Topic
	alter map[string]string
}

// Plan compares the topics that exist with those that should.
func Plan(ctx context.Context, adm *kadm.Client, wanted []Topic) ([]Change, error) {
	names := make([]string, len(wanted))
	for i, w := range wanted {
		names[i] = w.Name
	}
	if len(names) == 0 {
		return nil, nil
	}
	// Asking for authorized operations is kadm's way past the client's metadata cache, which may be seconds old.
	details, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx), names...)
	if err != nil {
		return nil, unavailable("list topics", err)
	}
	var existing []string
	for _, d := range details.Sorted() {
		switch {
		case d.Err == nil:
			existing = append(existing, d.Topic)
		case !errors.Is(d.Err, kerr.UnknownTopicOrPartition):
			return nil, unavailable("describe topic "+d.Topic, d.Err)
		}
	}
	configs, err := describe(ctx, adm, existing)
	if err != nil {
		return nil, err
	}
	changes := make([]Change, len(wanted))
	for i, w := range wanted {
		if d := details[w.Name]; slices.Contains(existing, w.Name) {
			changes[i] = compareTopic(w, d, configs[w.Name])
			continue
		}
		changes[i] = Change{Topic: w.Name, Action: Create, Partitions: w.Partitions, want: w,
			Detail: fmt.Sprintf("%d partitions, replication %d", w.Partitions, w.Replication)}
	}
	return changes, nil
}

func unavailable(op string, err error) error {
	return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: err}
}

func describe(ctx context.Context, adm *kadm.Client, names []string) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	if len(names) == 0 {
		return out, nil
	}
	list, err := adm.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, unavailable("describe the topics' settings", err)
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

// compareTopic returns what has to change in an existing topic.
func compareTopic(w Topic, d kadm.TopicDetail, have map[string]string) Change {
	c := Change{Topic: w.Name, Action: Keep, Partitions: int32(len(d.Partitions)), want: w, alter: map[string]string{}}
	var reasons []string
	note := func(v Verb, format string, args ...any) {
		if c.Action != Refused {
			c.Action = v
		}
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	if n := int32(len(d.Partitions)); n != w.Partitions {
		note(Refused, "has %d partitions, configured are %d: changing the count would move entities between partitions; "+
			"write partitions: %d for this source, or see `forebay topics rekey %s --partitions %d -c FILE`", n, w.Partitions, n, w.Name, w.Partitions)
	}
	if unfinishedCopy(have) && !unfinishedCopy(w.Configs) {
		note(Refused, "looks like a copy that `forebay topics rekey` has not finished (%s %s, %s %s): run that again; where it is none, "+
			"kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name %s --add-config %s=%s",
			timestampType, have[timestampType], retention, have[retention], w.Name, timestampType, w.Configs[timestampType])
	}
	copies := fewestCopies(d.Partitions)
	if copies != int64(w.Replication) {
		note(Differs, "has replication %d, configured is %d: move it with kafka-reassign-partitions", copies, w.Replication)
	}
	for _, key := range slices.Sorted(maps.Keys(w.Configs)) {
		was, known := have[key]
		if !known { // a broker without the setting (the embedded one) cannot break it
			continue
		}
		if want, err := strconv.ParseInt(w.Configs[key], 10, 64); key == minInsync && err == nil && want > copies {
			note(Refused, "%s would be %d, more than its copies (%d): nothing could be written; move the topic first, or write replication: %d for this source",
				key, want, copies, copies)
			continue
		}
		if was == w.Configs[key] {
			continue
		}
		if why := whyKeep(key, was, w.Configs[key], copies); why != "" {
			note(Differs, "%s is %s, configured is %s: %s", key, was, w.Configs[key], why)
			continue
		}
		c.alter[key] = w.Configs[key]
	}
	if len(c.alter) > 0 && c.Action != Refused {
		c.Action = Alter
		for _, key := range slices.Sorted(maps.Keys(c.alter)) {
			reasons = append(reasons, fmt.Sprintf("%s %s -> %s", key, have[key], c.alter[key]))
		}
	}
	c.Detail = strings.Join(reasons, "; ")
	return c
}

// unfinishedCopy reports whether a topic has the settings of a copy that [Rekey] has not finished. Callers must not correct these
// settings: nothing else says that the copy is unfinished.
func unfinishedCopy(configs map[string]string) bool {
	for key, value := range unfinishedCopyConfigs {
		if configs[key] != value {
			return false
		}
	}
	return true
}

// fewestCopies returns how many copies each partition has at least.
func fewestCopies(ps kadm.PartitionDetails) int64 {
	fewest := int64(math.MaxInt64)
	for _, p := range ps {
		fewest = min(fewest, int64(len(p.Replicas)))
	}
	return fewest
}

// whyKeep returns why a setting is not changed, or "" if changing it is safe: the topic then keeps more, or for longer, or is safer, or
// can be written again.
func whyKeep(key, was, want string, copies int64) string {
	a, errA := strconv.ParseInt(was, 10, 64)
	b, errB := strconv.ParseInt(want, 10, 64)
	if errA != nil || errB != nil {
		return ""
	}
	switch key {
	case retention:
		if a < 0 || b < a {
			return "shortening it deletes events; do it with kafka-configs"
		}
	case maxMessage:
		if b < a {
			return "a larger limit is harmless"
		}
	case minInsync:
		if b < a && a <= copies {
			return "a stricter value is kept"
		}
	}
	return ""
}

// Apply makes the changes of [Plan] and returns them. A topic whose change is refused is left as it is, and does not affect the others;
// see [Problems].
func Apply(ctx context.Context, adm *kadm.Client, wanted []Topic, dryRun bool) ([]Change, error) {
	changes, err := Plan(ctx, adm, wanted)
	if err != nil || dryRun {
		return changes, err
	}
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
		return nil // somebody else was faster; the next run compares it
	case errors.Is(err, kerr.InvalidReplicationFactor):
		return schemas.Errorf(schemas.Invalid, "create topic "+c.Topic, "the cluster has fewer brokers than replication %d: %w", c.want.Replication, err)
	case err != nil:
		return unavailable("create topic "+c.Topic, err)
	}
	return nil
}

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
		return unavailable("alter topic "+c.Topic, err)
	}
	return nil
}

// Problems joins what was refused, nil if nothing was.
func Problems(changes []Change) error {
	var errs []error
	for _, c := range changes {
		if c.Action == Refused {
			errs = append(errs, schemas.Errorf(schemas.Conflict, "topic "+c.Topic, "%s", c.Detail))
		}
	}
	return errors.Join(errs...)
}
