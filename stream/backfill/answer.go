package backfill

import (
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/sink"
)

// answer collects what the pages of an API's answer to a request have brought so far.
type answer struct {
	src        *Source
	req        *Request
	events     []*schemas.Event // synthetic ones, of the request's version line and epoch
	elements   int              // that were looked at
	firstError error            // why the first element that is counted as unusable is
	out        Outcome
}

// take adds a page: of each element, up to maxElements of all pages, it makes a synthetic event, or counts in the outcome why there is none.
// A page that is cut at the limit counts as one over it, and events that are there already do not count.
func (a *answer) take(page *document, maxElements int) *failure {
	elements, more, err := split(page.body, a.src.items, maxElements-a.elements)
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
		if !a.fillIn(e) {
			a.out.Refused++
			continue
		}
		if e.Version.Epoch != a.req.Epoch {
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

// fillIn makes e a synthetic event of the request's source and version line by what it lacks: where the element does not say them, the
// request's entity and epoch, the time, and an id that follows from the event's state. It returns false if e is of another entity,
// clock or kind of version than the request.
func (a *answer) fillIn(e *schemas.Event) bool {
	if e.Entity == "" {
		e.Entity = a.req.Entity
	}
	if e.Entity != a.req.Entity || e.Version.Clock != a.req.Clock || e.Version.Kind != a.req.Kind {
		return false
	}
	if e.Version.Epoch == 0 {
		e.Version.Epoch = a.req.Epoch
	}
	now := time.Now().UTC()
	e.Source, e.Backfill, e.RecordedTime = a.req.Source, true, now
	if e.Time.IsZero() {
		e.Time = now
	}
	if e.ID == "" {
		e.ID = newID(e)
	}
	return true
}

// unusable counts an element of which no event can be made, or none that the topic takes.
func (a *answer) unusable(err error) {
	a.out.Unusable++
	if a.firstError == nil {
		a.firstError = err
	}
}

// finish sets why the request did not end well: the failure, if there was one; otherwise, if no event was produced, what was wrong with
// the items, or that there were none.
func (a *answer) finish(fail *failure) {
	o := &a.out
	if fail == nil && o.Produced > 0 {
		return
	}
	switch {
	case fail != nil:
		o.Reason, o.Detail, o.Code = fail.reason, clean(fail.err), fail.code
	case o.Unusable > 0:
		o.Reason, o.Detail = Unusable, clean(a.firstError)
	case o.Refused > 0:
		o.Reason, o.Detail = OtherEntity, "the answer is about other entities, clocks or kinds of version than the one asked for"
	case o.Outside > 0:
		o.Reason, o.Detail = Nothing, "the answer has no version that is missing, or only such of another epoch"
	default:
		o.Reason, o.Detail = Nothing, "the answer is empty"
	}
}

// maxDetail is how much of an error's text is kept.
const maxDetail = 512

// clean is [sink.Text]. A nil error is "unknown".
func clean(err error) string {
	if err == nil {
		err = errors.New("unknown")
	}
	return sink.Text(err, maxDetail)
}
