package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/samples"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/expression"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/reader"
	"github.com/forebay-io/forebay/stream/sink"
)

// SamplesChecked is what became of the samples of all sources.
type SamplesChecked struct {
	Problems config.Problems // expressions and parameters that fail
	Notes    config.Problems // what could not be tried
	Rendered int             // actions, each for one sample
}

// CheckSamples takes each sample of each subscription's sources through types, match, the second key, senders, when and policy, and renders the
// parameters of the actions that would run. It sends nothing. The configuration must have passed [Check].
func CheckSamples(c *config.Config) (SamplesChecked, error) {
	s := sampleCheck{c: c, events: map[string][]sampleEvent{}, failed: map[config.Problem][]string{}, params: map[string]*template.Set{}}
	for _, team := range sortedKeys(c.Teams) {
		for _, name := range sortedKeys(c.Teams[team].Subscriptions) {
			if err := s.subscription(nameInTeam{team, name}); err != nil {
				return SamplesChecked{}, err
			}
		}
	}
	for _, p := range s.order {
		s.out.Problems = append(s.out.Problems, c.Problem(p.Path, p.Message+"; on "+several(s.failed[p])))
	}
	return s.out, nil
}

// sampleCheck is one CheckSamples.
type sampleCheck struct {
	c      *config.Config
	events map[string][]sampleEvent // of each source, by its full name
	params map[string]*template.Set // of each destination, by its full name
	failed map[config.Problem][]string
	order  []config.Problem // of failed, whose samples they have
	out    SamplesChecked
}

// sampleEvent is the event of a sample, or of an element of its list.
type sampleEvent struct {
	*schemas.Event
	sample string
}

// subscription tries the samples of a subscription's sources.
func (s *sampleCheck) subscription(at nameInTeam) error {
	sub, path := subscriptionIn(s.c, at), "teams."+at.team+".subscriptions."+at.name
	selects, err := selection(sub)
	if err != nil {
		return err // config.Load has checked it
	}
	types := reader.Globs(sub.Types)
	for _, source := range s.c.SourcesOf(at.team, at.name) {
		events, err := s.of(source)
		if err != nil {
			return err
		}
		for _, e := range events {
			if !types(e.Type, e.Source) {
				continue
			}
			if selects != nil {
				if wanted, _, err := selects(e.Event); err != nil || !wanted {
					key, why, _ := strings.Cut(text(err), " ") // "dedupe.also.key fails at ..."
					s.fails(path+"."+key, e, why)
					continue
				}
			}
			if source.Thin != nil && !e.Deleted {
				continue
			}
			if err := s.actions(at, sub, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// actions tries the actions of a subscription for one event that it selects.
func (s *sampleCheck) actions(at nameInTeam, sub *config.Subscription, e sampleEvent) error {
	by := policy.Senders{Own: sub.Senders.Own == config.SendersDrop, Automation: sub.Senders.Automation == config.SendersDrop}
	for i, a := range sub.Actions {
		to, _ := s.c.Destination(at.team, a.To) // config.Load has found it
		action := sink.Action{ID: schemas.NewActionID(at.team+"."+at.name, 0, e.Source, e.ID, a.Name), Name: a.Name, Subscription: at.team + "." + at.name,
			Destination: to.FullName(), Attempt: 1, Event: e.Event}
		if v, _ := by.Before(context.Background(), action); v.Status != "" {
			continue
		}
		if err := s.action(fmt.Sprintf("teams.%s.subscriptions.%s.actions[%d]", at.team, at.name, i), a, to, action, e); err != nil {
			return err
		}
	}
	return nil
}

// action tries one action for one event.
func (s *sampleCheck) action(path string, of config.Action, to config.NamedDestination, a sink.Action, e sampleEvent) error {
	in := policy.Input(a)
	if of.When != "" {
		if runs, _ := s.holds(path+".when", of.When, in, e); !runs {
			return nil
		}
	}
	team, _, _ := strings.Cut(a.Subscription, ".")
	if !s.allowed("policy", s.c.Policy, in, e) || !s.allowed("teams."+team+".policy", s.c.Teams[team].Policy, in, e) {
		return nil
	}
	set, there := s.params[a.Destination]
	if !there {
		var err error
		if set, err = paramsOf(s.c, to, nil); err != nil {
			return err
		}
		s.params[a.Destination] = set
	}
	if set == nil {
		return nil
	}
	s.out.Rendered++
	_, err := set.Render(a)
	if err == nil {
		return nil
	}
	if of, is := errors.AsType[*sink.AttemptError](err); is {
		err = of.Err
	}
	key, why, _ := strings.Cut(err.Error(), " ") // "params.text is null"
	if _, own := of.Params.Values()[strings.TrimPrefix(key, "params.")]; own {
		s.fails(path+"."+key, e, why)
	} else {
		s.fails(to.Path()+"."+key, e, fmt.Sprintf("%s; for action %s of %s", why, a.Name, a.Subscription))
	}
	return nil
}

// holds reports whether a condition holds, and whether it fails, which it notes.
func (s *sampleCheck) holds(path, condition string, in *expression.Input, e sampleEvent) (holds, failed bool) {
	x, err := expression.Condition(condition)
	if err == nil {
		holds, err = in.True(x)
	}
	s.fails(path, e, text(err))
	return holds, err != nil
}

// allowed reports whether a level of policy may let an action go on: the first rule that holds decides.
func (s *sampleCheck) allowed(path string, rules []config.PolicyRule, in *expression.Input, e sampleEvent) bool {
	for i, r := range rules {
		if holds, failed := s.holds(fmt.Sprintf("%s[%d].if", path, i), r.If, in, e); holds || failed {
			return !failed && r.Then != string(policy.Deny)
		}
	}
	return true
}

// fails notes why something fails for a sample; without a why, it does not.
func (s *sampleCheck) fails(path string, e sampleEvent, why string) {
	if why == "" {
		return
	}
	p := config.Problem{Path: path, Message: why}
	if s.failed[p] == nil {
		s.order = append(s.order, p)
	}
	if !slices.Contains(s.failed[p], e.sample) {
		s.failed[p] = append(s.failed[p], e.sample)
	}
}

// of returns the events of a source's samples, and notes what is none.
func (s *sampleCheck) of(named config.NamedSource) ([]sampleEvent, error) {
	events, there := s.events[named.FullName()]
	if there {
		return events, nil
	}
	source, err := provider.Compile(s.c.Source(named.Team, named.Name))
	if err != nil {
		return nil, err
	}
	path, known := "teams."+named.Team+".sources."+named.Name, false
	for _, name := range samples.Names() {
		if !strings.HasPrefix(name, named.Preset+"/") {
			continue
		}
		known = true
		list, err := eventsOfSample(source, named.PublicURL, name)
		if err != nil {
			s.out.Notes = append(s.out.Notes, s.c.Problem(path, fmt.Sprintf("sample %s was not tried: %v", name, err)))
		}
		for _, e := range list {
			events = append(events, sampleEvent{e, name})
		}
	}
	if named.Thin != nil {
		s.out.Notes = append(s.out.Notes, s.c.Problem(path, "actions get the document of thin, which samples do not have: when, policy and params were not tried"))
	}
	if !known {
		s.out.Notes = append(s.out.Notes, s.c.Problem(path, fmt.Sprintf("there are no samples of preset %s, so nothing was tried: `forebay sources test` takes a body of your own", named.Preset)))
	}
	s.events[named.FullName()] = events
	return events, nil
}

// eventsOfSample makes the events of a sample, signed as its provider would, where the signature can be made here. The error says why it is none.
func eventsOfSample(source *provider.Source, url, name string) (events []*schemas.Event, err error) {
	sample, err := samples.Lookup(name)
	if err != nil {
		return nil, err
	}
	now, r := time.Now(), &verify.Request{Method: http.MethodPost, URL: cmp.Or(url, "https://forebay.example/v1/in"), Header: http.Header{}, Body: sample.Body}
	for key, value := range sample.Headers {
		r.Header.Set(key, value)
	}
	if unsigned := source.Sign(r, now); unsigned != nil {
		defer func() {
			if err != nil {
				err = fmt.Errorf("%w; it cannot be signed here: %w", err, unsigned)
			}
		}()
	}
	elements := []verify.Request{*r}
	if source.Several() {
		if elements, err = source.Split(r); err != nil {
			return nil, err
		}
	}
	for i := range elements {
		e, err := source.Event(&elements[i], now)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// text is what an error says; "" of none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// several names samples, the first ones of many.
func several(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}
