package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas"
)

type topicsListCmd struct {
	fileFlags
	teamFlag
	Kind string `enum:"events,quarantine,dead," default:"" help:"Only topics of events, of quarantined deliveries (quarantine), or of dead letters (dead)."`
}

// Run lists the topics of the configuration as they stand in the cluster. They are as few as sources and subscriptions, and come whole. Rights that are
// missing to look at some are an error at the end.
func (c *topicsListCmd) Run(e *env) error {
	return c.withTopics(e, func(ctx context.Context, t topicsIn) error {
		list, err := topics.List(ctx, t.cl, t.file, t.wanted)
		if err != nil {
			return err
		}
		type item = topics.Item
		page, err := ofTeam(c.teamFlag, api.Page[item]{Items: list}, func(i item) []string { return []string{i.Team} })
		if err != nil {
			return err
		}
		page.Items = slices.DeleteFunc(page.Items, func(i item) bool { return c.Kind != "" && i.Kind != c.Kind })
		for n := range page.Items {
			page.Items[n].Settings, page.Items[n].Places = nil, nil // get has them
		}
		return errors.Join(topics.LackingOf(page.Items), printList(e, page, func(i item) string { return i.Topic },
			column[item]{name: "topic", whole: true, value: func(i item) string { return i.Topic }},
			column[item]{name: "of", wide: true, value: func(i item) string { return i.Of }},
			column[item]{name: "state", value: func(i item) string { return i.State }},
			column[item]{name: "partitions", value: func(i item) string { return strconv.Itoa(int(i.Partitions)) }},
			column[item]{name: "replicas", value: func(i item) string { return strconv.FormatInt(i.Replication, 10) }},
			column[item]{name: "retention", value: func(i item) string { return i.Retention }},
			column[item]{name: "offsets", value: func(i item) string { return strconv.FormatInt(i.Offsets, 10) }},
			column[item]{name: "detail", below: true, whole: true, value: func(i item) string { return i.Detail }}))
	})
}

type topicsGetCmd struct {
	fileFlags
	Topic string `arg:"" help:"The topic, as topics list -o id lists it."`
}

// Run shows one topic of the configuration: its settings, and where each partition begins and ends.
func (c *topicsGetCmd) Run(e *env) error {
	return c.withTopics(e, func(ctx context.Context, t topicsIn) error {
		n := slices.IndexFunc(t.wanted, func(w topics.Topic) bool { return w.Name == c.Topic })
		if n < 0 {
			var known []string
			for _, w := range t.wanted {
				known = append(known, w.Name)
			}
			hint := "`forebay topics list -o id` lists those that there are"
			if near := names.Nearest(c.Topic, known); near != "" {
				hint = "did you mean " + near + "?"
			}
			return schemas.Errorf(schemas.NotFound, "", "no source and no subscription of this configuration has topic %s; %s", c.Topic, hint)
		}
		list, err := topics.List(ctx, t.cl, t.file, t.wanted[n:n+1])
		if err != nil {
			return err
		}
		i := &list[0]
		return errors.Join(topics.LackingOf(list), printOne(e, i, i.Topic, func(w io.Writer) { showTopic(w, i, e) }))
	})
}

// showTopic writes a topic. A line whose value is empty is left out.
func showTopic(w io.Writer, i *topics.Item, e *env) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-12s %s\n", name, plain(value))
		}
	}
	line("topic", i.Topic)
	line(i.Kind, "of "+i.Of)
	line("state", i.State)
	line("detail", i.Detail)
	if i.Partitions == 0 { // it is missing, or may not be looked at
		return
	}
	line("replicas", strconv.FormatInt(i.Replication, 10))
	line("retention", i.Retention)
	line("offsets", strconv.FormatInt(i.Offsets, 10))
	for _, name := range slices.Sorted(maps.Keys(i.Settings)) {
		line("setting", name+"="+cmp.Or(i.Settings[name], none))
	}
	type item = topics.PartitionItem
	number := func(of func(item) int64) func(item) string {
		return func(i item) string { return strconv.FormatInt(of(i), 10) }
	}
	fmt.Fprintln(w)
	writeFitting(w, i.Places, e.table(), []column[item]{ //nolint:errcheck // stdout keeps it
		{name: "partition", value: number(func(i item) int64 { return int64(i.Partition) })},
		{name: "leader", value: number(func(i item) int64 { return int64(i.Leader) })},
		{name: "replicas", value: func(i item) string { return fmt.Sprint(i.Replicas) }},
		{name: "in sync", value: func(i item) string { return fmt.Sprint(i.Insync) }},
		{name: "start", value: number(func(i item) int64 { return i.Start })},
		{name: "end", value: number(func(i item) int64 { return i.End })},
	})
}
