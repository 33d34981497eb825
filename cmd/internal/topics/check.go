package topics

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
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
// configured, or only so many bytes of them: a process starts with these.
func Check(ctx context.Context, cl *kgo.Client, wanted []Topic, file string) (notes []string, unfit Unfit, err error) {
	wanted = slices.DeleteFunc(slices.Clone(wanted), func(t Topic) bool { return t.Spare })
	changes, err := Plan(ctx, cl, wanted)
	if err != nil {
		return nil, nil, err
	}
	unfit = Unfit{}
	for _, c := range changes {
		if _, lengthens := c.alter[retention]; lengthens {
			notes = append(notes, fmt.Sprintf("%s keeps events for %s, configured is %s: what is read later than that is gone; run `forebay topics apply -c %s`, which lengthens it",
				c.Topic, lasting(c.keeps), lasting(c.want.Configs[retention]), file))
		} else if c.keeps != "" {
			notes = append(notes, c.Topic+" "+c.Detail)
		}
		for _, s := range c.Settings {
			if s.Name == mostBytes && s.Is != "" {
				notes = append(notes, fmt.Sprintf("%s keeps %s bytes of a partition at most, however new they are: what is read later than that is gone; run `forebay topics apply -c %s`, which takes the limit away",
					c.Topic, s.Is, file))
			}
		}
		switch {
		case c.Action == Denied:
			unfit[c.Topic] = Wrong{Why: c.Detail, Lacks: true}
		case c.Action == Create:
			unfit[c.Topic] = Wrong{}
		case c.Stops():
			unfit[c.Topic] = Wrong{Why: c.Detail, Compacts: c.compacts}
		}
	}
	return notes, unfit, nil
}
