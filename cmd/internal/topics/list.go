package topics

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/agents"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/deadletter"
)

// Item is a topic of a configuration, as it stands in the cluster.
type Item struct {
	Topic  string `json:"topic"`
	Team   string `json:"team"`
	Kind   string `json:"kind"`  // events, quarantine or dead
	Of     string `json:"of"`    // the source that it is of, TEAM/SOURCE; of dead letters the subscription, TEAM.SUBSCRIPTION
	State  string `json:"state"` // missing, ok, differs, refused: it breaks a promise, or denied: it may not be looked at
	Detail string `json:"detail,omitempty"`
	// These are as the cluster has them, zero of a topic that is missing or denied.
	Partitions  int32             `json:"partitions"`
	Replication int64             `json:"replication"` // the fewest copies that one of its partitions has
	Retention   string            `json:"retention"`   // as the file writes it
	Offsets     int64             `json:"offsets"`     // that are kept, of all partitions: at least as many as records
	Settings    map[string]string `json:"settings,omitempty"`
	Places      []PartitionItem   `json:"places,omitempty"`
}

// PartitionItem is a partition of a topic: it keeps the offsets [Start, End).
type PartitionItem struct {
	Partition int32   `json:"partition"`
	Leader    int32   `json:"leader"` // -1: none, so nobody can write or read it
	Replicas  []int32 `json:"replicas"`
	Insync    []int32 `json:"in_sync"`
	Start     int64   `json:"start"`
	End       int64   `json:"end"`
}

// List returns the topics that are wanted of a configuration, in their order, as they stand in the cluster. Of one that may not be looked at it knows
// no more than the right that is missing.
func List(ctx context.Context, cl *kgo.Client, c *config.Config, wanted []Topic) ([]Item, error) {
	changes, details, have, err := look(ctx, cl, wanted)
	if err != nil {
		return nil, err
	}
	var there []string
	for _, ch := range changes {
		if ch.Action != Create && ch.Action != Denied {
			there = append(there, ch.Topic)
		}
	}
	starts, ends := kadm.ListedOffsets{}, kadm.ListedOffsets{}
	if len(there) > 0 {
		adm := kadm.NewClient(cl)
		if starts, err = adm.ListStartOffsets(ctx, there...); err == nil {
			ends, err = adm.ListEndOffsets(ctx, there...)
		}
		if err != nil {
			return nil, unavailable("read the topics' offsets", err)
		}
	}
	owners := ownersOf(c)
	items := make([]Item, len(changes))
	for n, ch := range changes {
		item := owners[ch.Topic]
		item.Topic, item.State, item.Detail = ch.Topic, stateOf(ch.Action), ch.Detail
		if ch.Action == Create {
			item.Detail = "`forebay topics apply` creates it"
		}
		if d := details[ch.Topic]; slices.Contains(there, ch.Topic) {
			item.Partitions, item.Replication, item.Settings = ch.Partitions, fewestCopies(d.Partitions), have[ch.Topic]
			item.Retention = lasting(item.Settings[retention])
			for _, p := range d.Partitions.Sorted() {
				start, _ := starts.Lookup(ch.Topic, p.Partition)
				end, _ := ends.Lookup(ch.Topic, p.Partition)
				item.Places = append(item.Places, PartitionItem{Partition: p.Partition, Leader: p.Leader, Replicas: p.Replicas, Insync: p.ISR, Start: start.Offset, End: end.Offset})
				item.Offsets += end.Offset - start.Offset
			}
		}
		items[n] = item
	}
	return items, nil
}

// LackingOf is [Lacking] of topics that were listed.
func LackingOf(list []Item) error {
	var lacks []string
	for _, i := range list {
		if i.State == string(Denied) {
			lacks = append(lacks, i.Detail)
		}
	}
	return lacking(lacks)
}

// stateOf says of a topic what is to be done with it.
func stateOf(v Verb) string {
	switch v {
	case Create:
		return "missing"
	case Alter:
		return string(Differs)
	}
	return string(v)
}

// ownersOf returns of which team, source or subscription each topic of a configuration is.
func ownersOf(c *config.Config) map[string]Item {
	of := map[string]Item{}
	for _, team := range c.AgentTeams() {
		of[agents.Topic(team)] = Item{Team: team, Kind: "agents", Of: team}
	}
	for team, t := range c.Teams {
		for name, s := range t.Sources {
			of[s.Topic] = Item{Team: team, Kind: "events", Of: team + "/" + name}
			of[Quarantine(team, name)] = Item{Team: team, Kind: "quarantine", Of: team + "/" + name}
		}
		for name := range t.Subscriptions {
			of[deadletter.Topic(team+"."+name)] = Item{Team: team, Kind: "dead", Of: team + "." + name}
		}
	}
	return of
}
