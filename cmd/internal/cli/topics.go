package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas/record"
)

// topicsIn is a configuration's topics, and the cluster that they are in.
type topicsIn struct {
	file   *config.Config
	wanted []topics.Topic
	cl     *kgo.Client
}

// withTopics calls do with the topics of the configuration, those of the teams whose files have no problems. A minute is what it may take.
func (f fileFlags) withTopics(e *env, do func(ctx context.Context, t topicsIn) error) error {
	cfg, left, err := start(f.options(e, config.RoleTopics))
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(app.KafkaOptions(cfg, config.RoleTopics)...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	return errors.Join(left, record.By(app.KafkaUser(cfg, config.RoleTopics), do(ctx, topicsIn{cfg, topics.Wanted(cfg, cfg.MaxBody), client})))
}

type topicsPlanCmd struct {
	fileFlags
	Check bool `help:"Exit with 5 if the topics are not as configured, for a pipeline."`
}

// Run prints what apply would do, and the topics that are like ours and not configured. Rights that are missing to look at some are an error at the end.
func (c *topicsPlanCmd) Run(e *env) error {
	return c.withTopics(e, func(ctx context.Context, t topicsIn) error {
		changes, err := topics.Plan(ctx, t.cl, t.wanted)
		if err != nil {
			return err
		}
		strangers, err := topics.Strangers(ctx, kadm.NewClient(t.cl), t.file, t.wanted)
		if err != nil {
			return err
		}
		changes = append(changes, strangers...)
		if e.output == "table" {
			topics.Write(e.Stdout, changes)
		} else if err := listChanges(e, changes); err != nil {
			return err
		}
		if lacks := topics.Lacking(changes); lacks != nil {
			return lacks
		}
		if c.Check && topics.Different(changes) {
			return &exitError{code: exitProblems, err: errors.New("the topics are not as configured: " + topics.Summary(changes))}
		}
		return nil
	})
}

type topicsApplyCmd struct {
	fileFlags
	DryRun bool `help:"Say what would be done and do nothing; plan says more."`
}

// Run creates missing topics and changes settings of others where that is safe: what plan prints, and nothing else. It lists all topics;
// differences that it must not change are an error at the end.
func (c *topicsApplyCmd) Run(e *env) error {
	return c.withTopics(e, func(ctx context.Context, t topicsIn) error {
		changes, err := topics.Apply(ctx, t.cl, t.wanted, c.DryRun)
		shown := listChanges(e, changes)
		if c.DryRun && shown == nil && err == nil {
			fmt.Fprintln(e.Stderr, nothingChanged)
		}
		return errors.Join(err, shown, topics.Problems(changes))
	})
}

func listChanges(e *env, changes []topics.Change) error {
	type item = topics.Change
	return printList(e, api.Page[item]{Items: changes}, func(i item) string { return i.Topic },
		column[item]{name: "topic", whole: true, value: func(i item) string { return i.Topic }},
		column[item]{name: "action", value: func(i item) string { return string(i.Action) }},
		column[item]{name: "partitions", value: func(i item) string { return fmt.Sprint(i.Partitions) }},
		column[item]{name: "detail", whole: true, below: true, value: func(i item) string { return i.Detail }})
}
