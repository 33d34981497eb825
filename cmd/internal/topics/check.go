package topics

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
)

// required lists the settings that a process does not start without. With other values an acknowledged event can be lost or refused, or
// the timestamp of a record is the producer's: versions are clamped against it, and dedupe windows and retention depend on it.
var required = []string{cleanupPolicy, unclean, minInsync, maxMessage, timestampType}

// Stops reports whether a process does not start with the topic as it is.
func (c Change) Stops() bool {
	return c.Action == Create && !c.want.Spare || c.Action == Refused ||
		slices.ContainsFunc(c.Settings, func(s Setting) bool { return c.Action == Alter && s.Set && slices.Contains(required, s.Name) })
}

// Unfit are topics that a process cannot use, by name.
type Unfit map[string]Wrong

// Wrong is what is wrong with a topic; zero: it is missing.
type Wrong struct {
	Why      string
	Compacts bool // it loses what was acknowledged, whatever becomes of the rest, as it is compacted
	Lacks    bool // the brokers do not let this process look at it: Why names the right
}

// Err returns the error for some of the topics, all if none is named; nil if these are fit. It names the command to run; file is the
// configuration's path. Kinds: NotFound if one is missing, Conflict if one is not as it must be, else Unavailable: a right is missing.
func (u Unfit) Err(file string, names ...string) error {
	if names == nil {
		names = slices.Sorted(maps.Keys(u))
	}
	var missing, differ, refused []string
	for _, name := range names {
		switch wrong, unfit := u[name]; {
		case unfit && wrong == Wrong{}:
			missing = append(missing, name)
		case wrong.Lacks:
			refused = append(refused, wrong.Why)
		case unfit:
			differ = append(differ, name+": "+wrong.Why)
		}
	}
	run := fmt.Sprintf("run `forebay topics apply -c %s`", file)
	switch {
	case len(missing) > 0:
		return schemas.Errorf(schemas.NotFound, "check topics", "missing: %s; %s", strings.Join(missing, ", "), run)
	case len(differ) > 0:
		return schemas.Errorf(schemas.Conflict, "check topics", "%s; %s", strings.Join(differ, "; "), run)
	case len(refused) > 0:
		return schemas.Errorf(schemas.Unavailable, "check topics", "%s; `forebay acls export -c %s` prints what each role needs", strings.Join(refused, ", "), file)
	}
	return nil
}

// Check checks topics before a process uses them: every topic except spare ones must exist, with settings that keep acknowledged events
// (P1) and the broker's append times. file is the configuration's path. The notes tell of topics that keep events for another time than is
// configured: a process starts with these.
func Check(ctx context.Context, cl *kgo.Client, wanted []Topic, file string) (notes []string, unfit Unfit, err error) {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(t Topic) bool { return t.Spare })
	if unfit, err = refused(ctx, cl, wanted); err != nil {
		return nil, nil, err
	}
	wanted = slices.DeleteFunc(wanted, func(t Topic) bool { return unfit[t.Name].Lacks })
	changes, err := Plan(ctx, kadm.NewClient(cl), wanted)
	if err != nil {
		return nil, nil, err
	}
	for _, c := range changes {
		if _, lengthens := c.alter[retention]; lengthens {
			notes = append(notes, fmt.Sprintf("%s keeps events for %s, configured is %s: what is read later than that is gone; run `forebay topics apply -c %s`, which lengthens it",
				c.Topic, lasting(c.keeps), lasting(c.want.Configs[retention]), file))
		} else if c.keeps != "" {
			notes = append(notes, c.Topic+" "+c.Detail)
		}
		switch {
		case c.Action == Create:
			unfit[c.Topic] = Wrong{}
		case c.Stops():
			unfit[c.Topic] = Wrong{Why: c.Detail, Compacts: c.compacts}
		}
	}
	return notes, unfit, nil
}

// refused returns the topics that the brokers do not let this client look at. [Plan] ends at the first of them, as kadm does, and what one team
// lacks would hold up all others: here it is a topic's own fault.
func refused(ctx context.Context, cl *kgo.Client, wanted []Topic) (Unfit, error) {
	found := Unfit{}
	look := func(name, operation string, code int16) {
		if right, ok := errors.AsType[*record.Right](record.Lacks(cl, operation, "topic "+name, kerr.ErrorForCode(code))); ok {
			found[name] = Wrong{Why: right.Lack(), Lacks: true}
		}
	}
	names, configs := make([]string, len(wanted)), kmsg.NewPtrDescribeConfigsRequest()
	for i, w := range wanted {
		names[i] = w.Name
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
