package config

import (
	"fmt"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// KafkaRole is what the file and the brokers call a role: intake, stream, or admin of commands.
func KafkaRole(role Role) string {
	if role == RoleIntake || role == RoleStream {
		return string(role)
	}
	return "admin"
}

// access returns what a role has of its own; nil if nothing.
func (r KafkaRoles) access(role string) *KafkaAccess {
	return map[string]*KafkaAccess{"intake": r.Intake, "stream": r.Stream, "admin": r.Admin}[role]
}

// KafkaTLS returns how a role's connections to brokers are encrypted, with paths that lead to its files from here; nil if they are not.
func (c *Config) KafkaTLS(role Role) *KafkaTLS {
	t, _ := c.tlsOf(KafkaRole(role))
	if t == nil || !t.Enabled {
		return nil
	}
	return c.found(t)
}

// KafkaTLSKey returns where the file has the section of [Config.KafkaTLS]: kafka.tls, or kafka.roles.intake.tls.
func (c *Config) KafkaTLSKey(role Role) string {
	_, path := c.tlsOf(KafkaRole(role))
	return path
}

// found returns a section tls with the paths of its files completed: in the file they are relative to it.
func (c *Config) found(t *KafkaTLS) *KafkaTLS {
	found := *t
	for _, file := range []*string{&found.CAFile, &found.CertFile, &found.KeyFile} {
		if *file != "" {
			*file = pathFrom(c.dir, *file)
		}
	}
	return &found
}

// tlsOf returns the section tls of a role and where it stands.
func (c *Config) tlsOf(role string) (t *KafkaTLS, path string) {
	if own := c.Kafka.Roles.access(role); own != nil && own.TLS != nil {
		return own.TLS, "kafka.roles." + role + ".tls"
	}
	return c.Kafka.TLS, "kafka.tls"
}

// KafkaSASL returns how a role's clients log in, and a function that follows the references of that section again. Both are nil if
// they do not log in.
func (c *Config) KafkaSASL(role Role) (s *KafkaSASL, reread func() (KafkaSASL, error)) {
	s, path := c.saslOf(KafkaRole(role))
	if s == nil {
		return nil, nil
	}
	return s, func() (KafkaSASL, error) { return c.rereadSASL(*s, path) }
}

// saslOf returns the section sasl of a role and where it stands.
func (c *Config) saslOf(role string) (s *KafkaSASL, path string) {
	if own := c.Kafka.Roles.access(role); own != nil && own.SASL != nil {
		return own.SASL, "kafka.roles." + role + ".sasl"
	}
	return c.Kafka.SASL, "kafka.sasl"
}

// rereadSASL follows the references of the section s at a path again. What its file cannot give at this moment is an error: with an old
// password, the brokers might lock the user out.
func (c *Config) rereadSASL(s KafkaSASL, path string) (KafkaSASL, error) {
	for key, set := range s.settable() {
		written, ok := c.written(path + "." + key)
		if !ok {
			continue
		}
		text, _, err := c.env.expand(written)
		if err == nil && strings.ContainsAny(text, "\r\n") {
			err = fmt.Errorf("the value of %s has more than one line", written)
		}
		if err != nil {
			return KafkaSASL{}, fmt.Errorf("%s.%s: %w", path, key, err)
		}
		set(text)
	}
	return s, nil
}

// settable returns what sets the values that may change while the process runs, by key.
func (s *KafkaSASL) settable() map[string]func(text string) {
	return map[string]func(string){
		"user":     func(text string) { s.User = text },
		"password": func(text string) { s.Password = schemas.NewSecret(text) },
		"token":    func(text string) { s.Token = schemas.NewSecret(text) },
	}
}

// lastingKafka returns the section kafka with references as they are written in the place of what is read again while the process runs.
func (c *Config) lastingKafka() Kafka {
	k := c.Kafka
	k.SASL = c.lastingSASL(k.SASL, "kafka.sasl")
	for _, role := range []struct {
		name string
		own  **KafkaAccess
	}{{"intake", &k.Roles.Intake}, {"stream", &k.Roles.Stream}, {"admin", &k.Roles.Admin}} {
		if *role.own != nil {
			copied := **role.own
			copied.SASL = c.lastingSASL(copied.SASL, "kafka.roles."+role.name+".sasl")
			*role.own = &copied
		}
	}
	return k
}

func (c *Config) lastingSASL(s *KafkaSASL, path string) *KafkaSASL {
	if s == nil {
		return nil
	}
	lasting := *s
	for key, set := range lasting.settable() {
		if written, ok := c.written(path + "." + key); ok {
			set(written)
		}
	}
	return &lasting
}
