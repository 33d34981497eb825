package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/jsonschema"
)

type verifyCmd struct {
	fileFlags
	Source string `arg:"" name:"team/source" help:"The source that it was sent to."`
	deliveryFlags
	Headers string `placeholder:"FILE" help:"File of the headers that it came with, a line \"Name: value\" for each; - is stdin."`
	URL     string `name:"url" help:"URL that the provider called, where that is signed. Default: the source's public URL."`
	At      string `placeholder:"TIME" help:"When it was received: RFC 3339, or how long ago (10m). Default: as the file of --delivery says, else now."`
}

// verifiedStep is what one step of the intake says of a delivery.
type verifiedStep struct {
	Step   string `json:"step"`   // method, signature, size, event, schema
	Result string `json:"result"` // ok, refused, quarantined, or answered: a handshake
	Detail string `json:"detail"`
}

// verified is what the intake would do with a delivery, without its limits and its log.
type verified struct {
	Source string          `json:"source"`
	Result string          `json:"result"` // event, refused, quarantined, or answered
	Steps  []*verifiedStep `json:"steps"`  // that were taken: the last one decides
	Event  *verifiedEvent  `json:"event,omitempty"`
	Events []verifiedEvent `json:"events,omitempty"` // in the place of event, of a delivery with a list
}

// verifiedEvent is the event that a delivery becomes.
type verifiedEvent struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Entity  string `json:"entity"`
	Version string `json:"version"`
}

// Run takes a captured request through the steps of the intake, and says which of them refuses it.
func (c *verifyCmd) Run(e *env) error {
	source, err := c.source(e, c.Source)
	if err != nil {
		return err
	}
	r, err := c.request(e)
	if err == nil && c.Headers != "" {
		err = readHeaders(e, c.Headers, r.Header)
	}
	if err != nil {
		return err
	}
	at, err := signedAt(c.At)
	if err != nil {
		return err
	}
	if c.At == "" && c.received != nil {
		at = *c.received
	}
	if r.URL = cmp.Or(c.URL, source.publicURL, r.URL); !source.Proof().URL {
		r.URL = ""
	}
	v := judge(source, r, at)
	if err := printOne(e, v, v.Result, func(w io.Writer) { showVerified(w, v, e) }); err != nil {
		return err
	}
	if last := v.Steps[len(v.Steps)-1]; last.Result == delivery.Refused || last.Result == delivery.Quarantined {
		return &exitError{code: exitProblems, err: fmt.Errorf("%s at the step %s: %s", last.Result, last.Step, plain(last.Detail))}
	}
	return nil
}

// judge takes a delivery through the steps of the intake, in their order.
func judge(source *namedSource, r *verify.Request, at time.Time) *verified {
	v := &verified{Source: names.Source.Print(source.id), Result: delivery.Event}
	step := func(name, failed string, check func() (detail string, err error)) bool {
		detail, err := check()
		s := &verifiedStep{Step: name, Result: "ok", Detail: detail}
		if v.Steps = append(v.Steps, s); err != nil {
			s.Result, s.Detail, v.Result = failed, err.Error(), failed
		}
		return err == nil
	}
	elements, several := []verify.Request{*r}, source.Several()
	var events []*schemas.Event
	switch {
	case !step("method", delivery.Refused, func() (string, error) { return methodOf(r) }):
	case !step("signature", delivery.Refused, func() (string, error) { return signedWith(source, r, at) }):
	case !step("size", delivery.Refused, func() (string, error) { return sizeOf(source, r) }):
	case answeredBy(source.Source, r):
		v.Result = delivery.Answered
		v.Steps = append(v.Steps, &verifiedStep{Step: "handshake", Result: delivery.Answered, Detail: "the provider asks whether the URL is right, and gets its answer"})
	case several && !step("list", delivery.Quarantined, func() (detail string, err error) {
		elements, err = source.Split(r)
		return fmt.Sprintf("%d elements: each becomes an event, or goes to quarantine alone", len(elements)), err
	}):
	case !step("event", delivery.Quarantined, func() (text string, err error) {
		events, text, err = eventsIn(source.Source, elements, at)
		return text, err
	}):
	case !step("schema", delivery.Quarantined, func() (string, error) { return heldAgainst(source.Source, events) }):
	default:
		for _, e := range events {
			v.Events = append(v.Events, verifiedEvent{ID: e.ID, Type: e.Type, Entity: string(e.Entity), Version: e.Version.Sortable()})
		}
		if !several {
			v.Event, v.Events = &v.Events[0], nil
		}
	}
	return v
}

func methodOf(r *verify.Request) (string, error) {
	if r.Method != http.MethodPost {
		return "", fmt.Errorf("%s: the intake takes POST alone", r.Method)
	}
	return r.Method, nil
}

func signedWith(source *namedSource, r *verify.Request, at time.Time) (string, error) {
	err := source.Verifier.Verify(r, at)
	if err == nil {
		return fmt.Sprintf("made with secret %d of the source's", r.Secret), nil
	}
	if e, ok := errors.AsType[*verify.Error](err); ok && (e.Reason == verify.TooOld || e.Reason == verify.TooNew) {
		err = fmt.Errorf("%w; --at says when it was received", err)
	}
	return "", err
}

func sizeOf(source *namedSource, r *verify.Request) (string, error) {
	text := fmt.Sprintf("%d bytes", len(r.Body))
	if most := source.file.MaxBody(source.id.Team, source.id.Name); most > 0 && int64(len(r.Body)) > most {
		return "", fmt.Errorf("%s are more than max_body, %s", text, config.Size(most))
	}
	return text, nil
}

// eventsIn makes the events of the elements of a delivery, up to the first that cannot be one. text is the type of the last.
func eventsIn(source *provider.Source, elements []verify.Request, at time.Time) (events []*schemas.Event, text string, err error) {
	for i := range elements {
		event := &schemas.Event{}
		events = append(events, event)
		if err = source.Read(&elements[i], at, event); err == nil {
			err = event.Validate()
		}
		if text = event.Type; err != nil {
			return events, text, inElement(source.Several(), i, err)
		}
	}
	return events, text, nil
}

// heldAgainst holds events against the schemas of their types, up to the first that does not fit and is not taken.
func heldAgainst(source *provider.Source, events []*schemas.Event) (text string, err error) {
	for i, event := range events {
		fit, why, err := source.CheckSchema(event)
		if fit == jsonschema.Misfit {
			why = "does not fit, and is taken all the same: " + why
		}
		if text = cmp.Or(why, string(fit), "not looked at"); err != nil {
			return text, inElement(source.Several(), i, err)
		}
	}
	return text, nil
}

// inElement says in which element of a list an error is.
func inElement(several bool, i int, err error) error {
	if !several {
		return err
	}
	return fmt.Errorf("element %d: %w", i+1, err)
}

// answeredBy reports whether a delivery is a handshake.
func answeredBy(source *provider.Source, r *verify.Request) bool {
	_, ok := source.Challenge(r)
	return ok
}

// showVerified writes the steps, and the event.
func showVerified(w io.Writer, v *verified, e *env) {
	type item = *verifiedStep
	writeFitting(w, v.Steps, e.table(), []column[item]{ //nolint:errcheck // stdout keeps it
		{name: "step", value: func(i item) string { return i.Step }},
		{name: "result", value: func(i item) string { return i.Result }},
		{name: "detail", whole: true, below: true, value: func(i item) string { return i.Detail }},
	})
	shown := v.Events
	if v.Event != nil {
		shown = []verifiedEvent{*v.Event}
	}
	for _, i := range shown {
		fmt.Fprintf(w, "\n%-13s %s\n%-13s %s\n%-13s %s\n%-13s %s\n", "event", plain(i.ID), "type", plain(i.Type), "entity", cell(i.Entity), "version", cell(e.version(i.Version)))
	}
}
