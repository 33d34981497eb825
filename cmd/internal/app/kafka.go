package app

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas/record"
)

// KafkaOptions returns the options that every Kafka client of a role shares: where the brokers are, and how the role gets in. Commands
// that ask brokers themselves have the role config.RoleTopics.
func KafkaOptions(c *config.Config, role config.Role) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Kafka.Brokers...),
		kgo.ClientID(c.Kafka.ClientID + "-" + config.KafkaRole(role)),
		kgo.Dialer(brokers.Dialer(encryption(c.KafkaTLS(role)))),
		kgo.RetryTimeout(30 * time.Second),
		kgo.WithHooks(KafkaUser(c, role)),
	}
	if c.Kafka.Rack != "" {
		opts = append(opts, kgo.Rack(c.Kafka.Rack))
	}
	if s, reread := c.KafkaSASL(role); s != nil {
		opts = append(opts, kgo.SASL(brokers.Login(mechanism(s.Mechanism, reread), c.KafkaTLS(role) != nil)))
	}
	return opts
}

// KafkaUser returns whom the clients of a role are for the brokers, in words.
func KafkaUser(c *config.Config, role config.Role) record.User {
	if s, _ := c.KafkaSASL(role); s != nil && s.User != "" {
		return record.User("user " + s.User)
	} else if s != nil {
		return "the user of the token"
	}
	if t := encryption(c.KafkaTLS(role)); t != nil && t.CertFile != "" {
		return record.User("user " + t.Subject())
	}
	return "user ANONYMOUS"
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
