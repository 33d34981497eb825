package app

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/schemas"
)

// KafkaOptions returns the options that every Kafka client of a role shares: where the brokers are, and how the role gets in. Commands
// that ask brokers themselves have the role config.RoleTopics.
func KafkaOptions(c *config.Config, role config.Role) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Kafka.Brokers...),
		kgo.ClientID(c.Kafka.ClientID + "-" + config.KafkaRole(role)),
		kgo.Dialer(brokers.Dialer(encryption(c.KafkaTLS(role)))),
		kgo.RetryTimeout(30 * time.Second),
	}
	if c.Kafka.Rack != "" {
		opts = append(opts, kgo.Rack(c.Kafka.Rack))
	}
	if s, reread := c.KafkaSASL(role); s != nil {
		opts = append(opts, kgo.SASL(brokers.Login(mechanism(s.Mechanism, reread), c.KafkaTLS(role) != nil)))
	}
	return opts
}

func encryption(t *config.KafkaTLS) *brokers.TLS {
	if t == nil {
		return nil
	}
	return &brokers.TLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName}
}

// mechanism returns the SASL mechanism of a name that the file may have. Each time a connection logs in it asks again for user and
// password.
func mechanism(name string, reread func() (config.KafkaSASL, error)) sasl.Mechanism {
	scrams := func(context.Context) (scram.Auth, error) {
		s, err := reread()
		return scram.Auth{User: s.User, Pass: s.Password.Reveal()}, err
	}
	switch name {
	case "SCRAM-SHA-256":
		return scram.Sha256(scrams)
	case "SCRAM-SHA-512":
		return scram.Sha512(scrams)
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			s, err := reread()
			return oauth.Auth{Token: s.Token.Reveal()}, err
		})
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		s, err := reread()
		return plain.Auth{User: s.User, Pass: s.Password.Reveal()}, err
	})
}

// kafkaRole is the role as which a process does what all its roles need: that of the intake where it has it, since it uses all topics.
func (a *App) kafkaRole() config.Role {
	if a.has(config.RoleIntake) {
		return config.RoleIntake
	}
	return config.RoleStream
}

// wantedTopics returns the topics that this process uses: for the intake each source's topics of events and of quarantine, for the
// stream its events alone.
func (a *App) wantedTopics() []topics.Topic {
	all := topics.Wanted(a.file(), a.file().MaxBody)
	if a.has(config.RoleIntake) {
		return all
	}
	return slices.DeleteFunc(all, func(t topics.Topic) bool { return !strings.HasPrefix(t.Name, "events.") })
}

// topicGrace is how long a topic may be missing after the start: not every broker knows at once of a topic that was just created.
const topicGrace = 3 * time.Second

// checkTopics returns an error if topics are missing, or have settings with which an acknowledged delivery could be lost. It waits
// until the brokers answer, and up to topicGrace for missing topics.
func (a *App) checkTopics(ctx context.Context, adm *kadm.Client) error {
	began := time.Now()
	var notes []string
	err := a.patiently(ctx, "topics", func(ctx context.Context) error {
		var err error
		notes, err = topics.Check(ctx, adm, a.wantedTopics(), a.cfg.Path)
		if schemas.KindOf(err) == schemas.NotFound && time.Since(began) < topicGrace {
			return &schemas.Error{Kind: schemas.Unavailable, Err: err} // patiently tries again after an error of this kind
		}
		return err
	})
	for _, note := range notes {
		a.log.Warn("a topic keeps events for another time than is configured", "what", note)
	}
	a.ready.set("topics", err)
	return err
}
