package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

type sendCmd struct {
	fileFlags
	Source string `arg:"" name:"team/source" help:"The source to send to."`
	deliveryFlags
	URL string `name:"url" help:"Base URL of the intake. Default: listen.intake of the configuration."`
	playFlags
}

// sent is the intake's answer to one delivery.
type sent struct {
	Attempt int `json:"attempt"` // 1 for the first of --repeat; those of --duplicate have the same
	delivery.Answer
}

// Run signs a delivery with the source's secret, as the provider does, posts it to the intake as the flags say, and lists the answers.
func (c *sendCmd) Run(e *env) error {
	if err := c.check(); err != nil {
		return err
	}
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return usageError("--url is not a URL such as http://127.0.0.1:8080")
	}
	to, err := c.source(e, c.Source)
	if err != nil {
		return err
	}
	r, err := c.request(e)
	if err != nil {
		return err
	}
	signer := to.Source
	if c.Forge {
		if signer, err = forger(to.file.Source(to.id.Team, to.id.Name)); err != nil {
			return fmt.Errorf("forge for %s: %w", c.Source, err)
		}
	}
	all, err := c.play(r, func(r *verify.Request, at time.Time) error { return to.address(r, at, signer, c.URL) })
	if err != nil {
		return err
	}
	if err := all[0].sign(); err != nil {
		return err
	}
	refuse := "" // what must be refused
	first := *all[0].Request
	switch {
	case c.Forge:
		refuse = "a forged delivery"
	case c.Stale > 0 && to.Verifier.Verify(&first, time.Now()) != nil: // as the source would
		refuse = fmt.Sprintf("a delivery that was signed %s ago", c.Stale)
	}
	return c.post(e, all, refuse, func(r *verify.Request) { explainQuarantined(e, to.Source, r, names.Source.Print(to.id)) },
		func(r *verify.Request, at time.Time) string {
			return cmp.Or(tooOld(to.Verifier, r, at), whyUnauthorized(e, to, c.URL != ""))
		})
}

// tooOld says by how much a request was signed too long ago when it was sent; empty: it was not. So is one whose time is in a body that a retry
// keeps.
func tooOld(v verify.Verifier, r *verify.Request, at time.Time) string {
	if bad, ok := errors.AsType[*verify.Error](v.Verify(r, at)); ok && bad.Reason == verify.TooOld {
		return "it was signed too long ago: " + bad.Detail
	}
	return ""
}

// explainQuarantined says of a delivery that the intake has put into quarantine why it has, as far as this file's mapping tells, and what to do.
func explainQuarantined(e *env, source *provider.Source, r *verify.Request, name string) {
	why := "by this file's mapping it is one; does the intake have another?"
	if err := unusable(source, r); err != nil {
		why = err.Error()
	}
	of := "it"
	if source.Several() {
		of = "all of it"
	}
	fmt.Fprintf(e.Stderr, "it is authentic and was kept, but no event can be made of %s: %s\n", of, plain(why))
	fmt.Fprintf(e.Stderr, "`forebay quarantine list --source %s` lists it, `forebay quarantine redrive` makes it an event once the mapping is fixed\n", name)
}

// unusable says why a delivery, or an element of its list, cannot become an event. Nil: it can.
func unusable(source *provider.Source, r *verify.Request) (err error) {
	elements := []verify.Request{*r}
	if source.Several() {
		if elements, err = source.Split(r); err != nil {
			return err
		}
	}
	events, _, err := eventsIn(source, elements, time.Now())
	if err == nil {
		_, err = heldAgainst(source, events)
	}
	return err
}

// post posts the deliveries one after the other, and lists the answers. An answer other than 2xx makes the command fail (of what must
// be refused, where refuse says what that is, any but 401), but does not end it; a request without an answer does. quarantined is called with one that went to quarantine, or a part of it,
// unauthorized says why the last was answered 401, and at what time.
func (c *sendCmd) post(e *env, all []numbered, refuse string, quarantined func(*verify.Request), unauthorized func(*verify.Request, time.Time) string) error {
	var items []sent
	var kept *verify.Request
	var refused verify.Request
	var refusedAt time.Time
	limit := rate.NewLimiter(rate.Inf, 1)
	if c.Rate > 0 {
		limit.SetLimit(rate.Limit(c.Rate))
	}
	for _, r := range all {
		if err := limit.Wait(e.ctx); err != nil {
			return errors.Join(showSent(e, items), &exitError{code: exitInterrupt})
		}
		if err := r.sign(); err != nil {
			return errors.Join(showSent(e, items), err)
		}
		answer, err := delivery.Post(e.ctx, r.Request, false)
		if err != nil {
			return errors.Join(showSent(e, items), noAnswer(e, r.URL, err, "is the intake running there?"))
		}
		if answer.Status == http.StatusUnauthorized {
			refused, refusedAt = *r.Request, time.Now()
		}
		if answer.Result == delivery.Quarantined || answer.List != nil && answer.List.Quarantined > 0 {
			kept = r.Request
		}
		items = append(items, sent{Attempt: r.n, Answer: answer})
	}
	if err := showSent(e, items); err != nil {
		return err
	}
	if kept != nil {
		quarantined(kept)
	}
	if refuse != "" {
		for _, s := range items {
			if s.Status != http.StatusUnauthorized {
				return &exitError{code: exitFailed, err: fmt.Errorf("%s was answered %d, and must be refused with 401", refuse, s.Status)}
			}
		}
		fmt.Fprintf(e.Stderr, "each was refused with 401, as %s must be\n", refuse)
		return nil
	}
	if slices.ContainsFunc(items, func(s sent) bool { return s.Result == delivery.Refused }) {
		return &exitError{code: exitFailed, err: errors.New("not every delivery was accepted" + whyRefused(items, func() string { return unauthorized(&refused, refusedAt) }))}
	}
	return nil
}

// noAnswer is the error of what was posted to a URL without an answer, which asks a question, unless we are interrupted.
func noAnswer(e *env, url string, err error, question string) error {
	if e.ctx.Err() != nil {
		return &exitError{code: exitInterrupt}
	}
	return schemas.Errorf(schemas.Unavailable, "post to "+url, "%w; %s", err, question)
}

// whyRefused says what the last refusal is about, as far as its status tells: a sender learns no more.
func whyRefused(items []sent, unauthorized func() string) string {
	status := 0
	for _, s := range items {
		if s.Result == delivery.Refused {
			status = s.Status
		}
	}
	switch status {
	case http.StatusUnauthorized:
		return ": 401, " + unauthorized()
	case http.StatusNotFound:
		return ": 404, the intake there has no such source; does it run with this file?"
	case http.StatusRequestEntityTooLarge:
		return ": " + tooLarge
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return fmt.Sprintf(": %d, the intake cannot take it now; the intake's log has the reason", status)
	}
	return ""
}

// tooLarge is why a body is refused that is larger than the source takes.
const tooLarge = "413, the body is larger than the source takes; `forebay config show` prints its max_body"

// whyUnauthorized says what the intake does not tell a sender: whether it has the source at all. It asks the operator listener of FOREBAY_URL,
// or the file's, unless the intake is another than the file's.
func whyUnauthorized(e *env, to *namedSource, elsewhere bool) string {
	l := listenerFlag{URL: os.Getenv("FOREBAY_URL"), TokenFile: os.Getenv("FOREBAY_TOKEN_FILE")}
	if l.URL == "" && !elsewhere && to.file.Listen.Operator != "" {
		l.URL = "http://" + to.file.Listen.Operator
	}
	name := names.Source.Print(to.id)
	unknown := "the intake has no source " + name + ", or none of its secrets made this signature; its log has the reason"
	if l.URL == "" {
		return unknown
	}
	client, err := l.client()
	if err != nil {
		return unknown
	}
	ctx, cancel := context.WithTimeout(e.ctx, 5*time.Second)
	defer cancel()
	page, err := client.Sources(ctx)
	if err != nil {
		return unknown
	}
	if !slices.ContainsFunc(page.Items, func(i api.SourceItem) bool { return i.Team == to.id.Team && i.Source == to.id.Name }) {
		return "unknown_source: the process at " + l.URL + " has no source " + name + "; has it taken this file? Its log says why not"
	}
	return "the process at " + l.URL + " has the source, and none of its secrets there made this signature; its log has the reason"
}

// result is the column of that name: of a list, how many of its elements became what.
func (s sent) result() string {
	switch {
	case s.List == nil:
		return s.Result
	case s.List.Quarantined == 0:
		return fmt.Sprintf("events: %d", s.List.Events)
	default:
		return fmt.Sprintf("events: %d, quarantined: %d", s.List.Events, s.List.Quarantined)
	}
}

func showSent(e *env, items []sent) error {
	if len(items) == 0 { // the first one failed, and its error says all
		return nil
	}
	return printList(e, api.Page[sent]{Items: items}, func(s sent) string { return s.ID },
		column[sent]{name: "attempt", value: func(s sent) string { return strconv.Itoa(s.Attempt) }},
		column[sent]{name: "status", value: func(s sent) string { return strconv.Itoa(s.Status) }},
		column[sent]{name: "result", value: sent.result},
		column[sent]{name: "id", whole: true, value: func(s sent) string { return s.ID }},
		column[sent]{name: "body", wide: true, value: func(s sent) string { return s.Body }})
}
