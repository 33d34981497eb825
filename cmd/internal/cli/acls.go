package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/rights"
	"github.com/forebay-io/forebay/schemas/record"
	kafkasink "github.com/forebay-io/forebay/sinks/kafka"
)

type aclsExportCmd struct {
	fileFlags
	Kafka     bool              `xor:"form" help:"As commands of Kafka's kafka-acls.sh."`
	Strimzi   bool              `xor:"form" help:"As resources KafkaUser of the Strimzi operator."`
	Terraform bool              `xor:"form" help:"As resources kafka_acl of the Terraform provider Mongey/kafka."`
	Cluster   string            `default:"kafka" placeholder:"NAME" help:"Name of the resource Kafka, for --strimzi. Default: kafka."`
	Principal map[string]string `placeholder:"WHO=USER" help:"User in Kafka of intake, stream, admin or a team. Default: user of kafka.sasl or kafka.roles; if the file has no user: a guess, with a note (kafka.client_id and the role); for a team, its name."`
	Rekey     bool              `help:"With what admin needs besides for \"forebay topics rekey\"."`
	Reading   bool              `help:"With what admin needs besides for \"forebay listen --forward-to\", and for \"forebay sources reconcile\" of Stripe and Shopify."`
	Consumers bool              `default:"true" negatable:"" help:"With the rights of the teams' own consumers."`
}

// Run prints the rights that the file's roles and teams need: without a form as a list.
func (c *aclsExportCmd) Run(e *env) error {
	cfg, err := config.Load(c.options(e, config.RoleACLs))
	if err != nil {
		return err
	}
	if err := c.checkPrincipals(cfg); err != nil {
		return err
	}
	roles := []rights.Role{rights.Intake, rights.Stream, rights.Admin}
	if c.Rekey {
		roles = append(roles, rights.Rekey)
	}
	if c.Reading {
		roles = append(roles, rights.Reading)
	}
	if c.Consumers {
		roles = append(roles, rights.Consumer)
	}
	list := rights.Of(cfg, roles, func(role rights.Role, team string) string { return c.principal(cfg, role, team) })
	for _, d := range cfg.AllDestinations() {
		if keys, ok := d.Keys.(*kafkasink.Config); ok && strings.Contains(keys.Topic, "${") {
			return fmt.Errorf("destination %s: its topic is a reference (%s), and rights are by name: write the topic itself", d.FullName(), keys.Topic)
		}
	}
	notes := c.guesses(cfg)
	for _, note := range notes {
		fmt.Fprintln(e.Stderr, "note: "+note)
	}
	var text string
	switch {
	case c.Kafka:
		text = rights.Kafka(list, notes...)
	case c.Strimzi:
		text = rights.Strimzi(list, c.Cluster, notes...)
	case c.Terraform:
		text = rights.Terraform(list, notes...)
	default:
		return listRights(e, list)
	}
	_, err = io.WriteString(e.Stdout, text)
	return err
}

// checkPrincipals refuses --principal of somebody who has no rights.
func (c *aclsExportCmd) checkPrincipals(cfg *config.Config) error {
	known := []string{"intake", "stream", "admin"}
	for team := range cfg.Teams {
		known = append(known, team)
	}
	for who := range c.Principal {
		if !slices.Contains(known, who) {
			return usageError("--principal %s: it is for intake, stream, admin and teams of the file", who)
		}
	}
	return nil
}

// principal returns the user of a role, or of a team's own consumers, as Kafka writes it.
func (c *aclsExportCmd) principal(cfg *config.Config, role rights.Role, team string) string {
	who := string(role)
	switch role {
	case rights.Consumer:
		who = team
	case rights.Rekey, rights.Reading:
		who = "admin"
	}
	if name, ok := c.Principal[who]; ok {
		return userOf(name)
	}
	if role == rights.Consumer {
		return userOf(team)
	}
	if s, _ := cfg.KafkaSASL(kafkaRoles[who]); s != nil && unknownUser(cfg, kafkaRoles[who]) == "" {
		return userOf(s.User)
	}
	return userOf(cfg.Kafka.ClientID + "-" + who)
}

// kafkaRoles are the roles by what the brokers call them.
var kafkaRoles = map[string]config.Role{"intake": config.RoleIntake, "stream": config.RoleStream, "admin": config.RoleTopics}

// guesses says of which roles the file does not say as whom the brokers know them, if --principal does not, either: rights for somebody else
// would be granted, and those that are needed missing.
func (c *aclsExportCmd) guesses(cfg *config.Config) (notes []string) {
	for _, who := range []string{"intake", "stream", "admin"} {
		if why := unknownUser(cfg, kafkaRoles[who]); why != "" && c.Principal[who] == "" {
			notes = append(notes, fmt.Sprintf("the principal %s of %s is a guess: %s; set it with --principal %s=USER", c.principal(cfg, rights.Role(who), ""), who, why, who))
		}
	}
	return notes
}

// unknownUser returns why the file does not say as whom the brokers know a role; empty if it does.
func unknownUser(cfg *config.Config, role config.Role) string {
	s, _ := cfg.KafkaSASL(role)
	t := cfg.KafkaTLS(role)
	switch {
	case s == nil && t != nil && t.CertFile != "":
		return "it gets in with a certificate (" + strconv.Quote(t.CertFile) + "), and the brokers take its name from the subject, by their ssl.principal.mapping.rules"
	case s == nil:
		return "the file has no login for it, and the brokers take it for User:ANONYMOUS"
	case s.User == "":
		return "it gets in with a token, and the brokers take its name from that"
	case strings.Contains(s.User, "${"):
		return "its user is a reference (" + strconv.Quote(s.User) + "), which is not followed here"
	}
	return ""
}

// userOf returns a principal by its name, which may have its type already.
func userOf(name string) string {
	if strings.HasPrefix(name, "User:") {
		return name
	}
	return "User:" + name
}

// byHand says of a right that a command lacks which export has it: admin, whose login it takes, may read nothing without that.
func byHand(err error) error {
	if r, ok := errors.AsType[*record.Right](err); ok {
		return fmt.Errorf("%w: `forebay acls export --reading` prints what is needed: %s", err, r.Lack())
	}
	return err
}

func listRights(e *env, list []rights.Right) error {
	type item = rights.Right
	return printList(e, api.Page[item]{Items: list}, func(i item) string { return i.Principal + " " + i.Operation + " " + i.Name },
		column[item]{name: "principal", whole: true, value: func(i item) string { return i.Principal }},
		column[item]{name: "operation", whole: true, value: func(i item) string { return i.Operation }},
		column[item]{name: "kind", value: func(i item) string { return string(i.Kind) }},
		column[item]{name: "name", whole: true, value: func(i item) string {
			if i.Prefixed {
				return i.Name + "*"
			}
			return i.Name
		}},
		column[item]{name: "for", value: func(i item) string { return i.Why }})
}
