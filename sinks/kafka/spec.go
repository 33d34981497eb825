package kafkasink

import (
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/stream/sink"
)

// Spec returns the type kafka.
func Spec() spec.Type {
	return spec.Type{Name: "kafka", New: func() spec.Config { return &Config{} }, Rows: []spec.Row{{
		Does: "the event into a topic of the same cluster", Declared: sink.Idempotent,
		Harmless: "consumers drop the second by `forebay-action-id`; `idempotent: false` where they do not",
	}}}
}

// Describe implements [spec.Config].
func (c *Config) Describe() spec.Description {
	return spec.Description{Params: Params(), Fields: []spec.Field{
		{Name: "topic", To: &c.Topic, Required: true, Doc: "The topic to write to, in the cluster of the log: TEAM.*, or what kafka.publish allows the team; of a shared destination any. None of Forebay's own."},
		{
			Name: "idempotent", To: &c.Idempotent, Computed: "true",
			Doc: "Whether consumers look at forebay-action-id. Where they do not, an attempt whose outcome is unknown is left to an operator.",
		},
	}}
}

// Check implements [spec.Config]. A topic that is not the team's is refused unless the main file allows it.
func (c *Config) Check(r *spec.Report) {
	if !r.Known("topic") || c.Topic == "" {
		return
	}
	if err := CheckTopic(c.Topic); err != nil {
		r.Problem("topic", "%v", err)
		return
	}
	may := r.Grants.Publish
	if r.Runs && !slices.ContainsFunc(may, func(prefix string) bool { return strings.HasPrefix(c.Topic, prefix) }) {
		r.Problem("topic", "%s is not a topic of the team's, whose names begin with %s; where it is to write there, write kafka: {publish: {%s: [%s]}} at the top of the file",
			c.Topic, strings.Join(may, " or "), r.Team, c.Topic)
	}
}

// Sink implements [spec.Config].
func (c *Config) Sink(d spec.Destination) (sink.Sink, error) {
	cluster, ok := d.Cluster.([]kgo.Opt)
	if !ok {
		return nil, errors.New("make a kafka destination: the options of the cluster are none of kgo's")
	}
	cfg := *c
	cfg.Client, cfg.Params, cfg.Timeout, cfg.MaxRecordBytes, cfg.Hidden = cluster, d.Params, d.Timeout, d.MaxRecord, d.Hidden
	return New(cfg)
}
