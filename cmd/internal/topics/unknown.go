package topics

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// Strangers returns the topics in the cluster that have a name like ours, and that the configuration does not have: what is left of a
// source that is gone or has moved, a slip, another installation's. Nothing is ever done with them.
func Strangers(ctx context.Context, adm *kadm.Client, c *config.Config, wanted []Topic) (list []Change, err error) {
	all, err := adm.ListTopics(kadm.WithAuthorizedOps(ctx))
	if err != nil {
		return nil, unavailable("list topics", err)
	}
	for _, d := range all.Sorted() {
		kind, rest, _ := strings.Cut(d.Topic, ".")
		team, _, named := strings.Cut(rest, ".")
		if !named || c.LeftOut(team) || !slices.Contains([]string{"events", "quarantine", "dead"}, kind) || slices.ContainsFunc(wanted, func(w Topic) bool { return w.Name == d.Topic }) {
			continue
		}
		what := "source"
		if kind == "dead" {
			what = "subscription"
		}
		why := fmt.Sprintf("no %s of team %s has it", what, team)
		if c.Teams[team] == nil {
			why = "there is no team " + team + " in this configuration"
		}
		list = append(list, Change{Topic: d.Topic, Action: Unknown, Partitions: int32(len(d.Partitions)),
			Detail: why + "; it is left alone (kafka-topics.sh --delete removes it with its records, if `forebay attention` lists nothing unread in it)"})
	}
	return list, nil
}
