package dev

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/config"
)

// printAddresses prints where webhooks are sent to, and where the parts listen.
func (s *session) printAddresses() {
	say := func(what, at string) { fmt.Fprintf(s.Stdout, "  %-9s %s\n", what, at) }
	what := "webhooks"
	for _, source := range s.sources() {
		say(what, s.intake()+"/v1/in/"+source)
		what = ""
	}
	say("console", s.operator()+"/")
	say("operator", s.operator())
	if path := s.tokenFile(); path != "" {
		say("token", path+", for the console and `forebay tokens`")
	}
	if at := s.app.Addr("agents"); at != nil {
		say("agents", "http://"+at.String())
	}
	say("broker", strings.Join(s.config.Kafka.Brokers, ", "))
	if s.postgres != nil {
		say("postgres", fmt.Sprintf("127.0.0.1:%d", s.postgres.Port()))
	}
	say("file", s.path)
	say("state", s.Data)
}

// printNotes prints the remarks on a configuration, as config check does: on what has no effect, for example.
func (s *session) printNotes(c *config.Config) {
	for _, n := range c.Notes() {
		fmt.Fprintln(s.Stderr, "note:", n)
	}
}

// urlFlag is what commands need to ask the operator's listener: the flag to find it, where it is not the usual one, and that with the token.
func (s *session) urlFlag() (flags string) {
	if operator := s.operator(); operator != "http://"+usual.operator {
		flags = " --url " + operator
	}
	if path := s.tokenFile(); path != "" {
		flags += " --token-file " + path
	}
	return flags
}

// sources returns the sources as TEAM/SOURCE, sorted.
func (s *session) sources() (list []string) {
	for _, team := range slices.Sorted(maps.Keys(s.config.Teams)) {
		for _, name := range slices.Sorted(maps.Keys(s.config.Teams[team].Sources)) {
			list = append(list, team+"/"+name)
		}
	}
	return list
}

// printWhatToMend says what waits in the console after the scene: the dead letter, and the entity with a gap.
func (s *session) printWhatToMend(o *outcome) {
	drawn := func(entity string) string {
		return s.operator() + "/console/entity?" + url.Values{"of": {"demo/fulfil/orders"}, "entity": {entity}}.Encode()
	}
	for _, d := range o.dead {
		fmt.Fprintf(s.Stdout, "\nThe agent refused order %s: %q; its later events wait. Suppose that it is fixed, and replay the dead letter:\n", d.Entity, refusal)
		fmt.Fprintf(s.Stdout, "  a click  %s\n", s.operator()+"/console/dlq/replay?action="+d.ID)
		fmt.Fprintf(s.Stdout, "  or       %s dlq replay %s --reason fixed%s\n", os.Args[0], d.ID, s.urlFlag())
		fmt.Fprintf(s.Stdout, "  then     %s\n", drawn(d.Entity))
	}
	fmt.Fprintf(s.Stdout, "An order with a gap that was skipped; the state for one place of it came afterwards:\n  drawn    %s\n", drawn(orderID(gapOrder)))
}

// printHowToLook prints commands that show what runs, with the name that this program was called by: in a fresh clone that is
// bin/forebay.
func (s *session) printHowToLook(ctx context.Context) {
	urlFlag, waits := s.urlFlag(), s.waits(ctx) // asked first: what follows is written at once
	fmt.Fprintf(s.Stdout, "\nForebay serves on %s; Ctrl-C stops it, the next start goes on from there. Look at %s/ in a browser, or:\n", s.intake(), s.operator())
	for _, command := range []string{"inbox list" + urlFlag, "inbox list" + urlFlag + " --decision stale", "quarantine list" + urlFlag, "subscriptions list" + urlFlag, "attention" + urlFlag + waits} {
		fmt.Fprintf(s.Stdout, "  %s %s\n", os.Args[0], command)
	}
	if s.agent != nil {
		fmt.Fprintf(s.Stdout, "  curl %s/calls\n", s.agent.url())
		fmt.Fprintf(s.Stdout, "  %s send demo/github --sample github/push -c %s\n", os.Args[0], s.path)
	} else if sources := s.sources(); len(sources) > 0 {
		fmt.Fprintf(s.Stdout, "  %s send %s --file BODY -c %s\n", os.Args[0], sources[0], s.path)
	}
}
