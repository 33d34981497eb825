package backfill

import (
	"errors"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// answer collects what a request has brought so far.
type answer struct {
	src        *Source
	q          *Request
	events     []*schemas.Event // named, of the request's line
	elements   int
	firstError error // why an element could not be used; the first
	out        Outcome
}

// take names the elements of a page.
func (a *answer) take(d *document, most int) *failure {
	elements, more, err := split(d.body, a.src.items, most-a.elements)
	if err != nil {
		return final(NotJSON, "%w", err)
	}
	if more {
		a.out.OverLimit++
	}
	a.elements += len(elements)
	for _, element := range elements {
		e, err := a.src.cfg.Name(element)
		if err != nil {
			a.unusable(err)
			continue
		}
		if !a.adopt(e) {
			a.out.Refused++
			continue
		}
		if e.Version.Epoch != a.q.Epoch {
			a.out.Outside++
			continue
		}
		if err := e.Validate(); err != nil {
			a.unusable(err)
			continue
		}
		a.events = append(a.events, e)
	}
	a.events = unique(a.events)
	return nil
}

// adopt makes e a synthetic event of the request's line; false if it is of another one.
func (a *answer) adopt(e *schemas.Event) bool {
	if e.Entity == "" {
		e.Entity = a.q.Entity
	}
	if e.Entity != a.q.Entity || e.Version.Clock != a.q.Clock || e.Version.Kind != a.q.Kind {
		return false
	}
	if e.Version.Epoch == 0 {
		e.Version.Epoch = a.q.Epoch
	}
	now := time.Now().UTC()
	e.Source, e.Backfill, e.RecordedTime = a.q.Source, true, now
	if e.Time.IsZero() {
		e.Time = now
	}
	if e.ID == "" {
		e.ID = newID(e)
	}
	return true
}

func (a *answer) unusable(err error) {
	a.out.Unusable++
	if a.firstError == nil {
		a.firstError = err
	}
}

// finish sets the outcome's reason: why nothing, or not all, became events.
func (a *answer) finish(fail *failure) {
	o := &a.out
	switch {
	case fail != nil:
		o.Reason, o.Detail, o.Code = fail.reason, clean(fail.err), fail.code
	case o.Produced > 0:
	case o.Unusable > 0:
		o.Reason, o.Detail = Unusable, clean(a.firstError)
	case o.Refused > 0:
		o.Reason, o.Detail = OtherEntity, "the answer is about other entities, or other clocks, than the one asked for"
	case o.Outside > 0:
		o.Reason, o.Detail = Nothing, "the answer has nothing of the range that is missing, or is of another epoch"
	default:
		o.Reason, o.Detail = Nothing, "the answer is empty"
	}
}

// maxDetail is how much of an error's text is kept.
const maxDetail = 512

// clean returns an error's text as a database stores it: valid UTF-8, at most maxDetail bytes, with spaces for the control characters
// of ASCII. A nil error is "unknown".
func clean(err error) string {
	if err == nil {
		err = errors.New("unknown")
	}
	text := err.Error()
	text = strings.ToValidUTF8(text[:min(len(text), maxDetail)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
