package callback

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/forebay-io/forebay/schemas/trace"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/stream/inbox/reports"
)

// Step is a tool call of an agent's run, as it is reported with the result: a span below the attempt's, where that is sampled.
type Step struct {
	Name      string    `json:"name"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Error     string    `json:"error"` // why it failed; empty: it did not
	// Attributes are the span's: texts, numbers and booleans.
	Attributes map[string]any `json:"attributes"`
}

// What steps may have. Texts are counted in bytes.
const (
	maxSteps      = 100
	maxStepName   = 128 // of the keys of attributes, too
	maxStepText   = 1024
	maxAttributes = 32
)

// readSteps reads the steps of a result; none where it has none. An error says which one cannot be taken and why: then none is. What clean
// knows is redacted in their texts.
func readSteps(raw json.RawMessage, clean *redact.Redactor) ([]Step, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var steps []Step
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	d.UseNumber()
	err := d.Decode(&steps)
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		err = errNoTime
	}
	if err == nil && len(steps) > maxSteps {
		err = fmt.Errorf("there are %d, and a result may have %d", len(steps), maxSteps)
	}
	if err != nil {
		return nil, fmt.Errorf("steps: %w", err)
	}
	for i := range steps {
		if err := steps[i].check(clean); err != nil {
			return nil, fmt.Errorf("steps[%d]: %w", i, err)
		}
	}
	return steps, nil
}

var errNoTime = errors.New("started_at and ended_at must be times such as 2026-11-29T10:00:00.5Z")

// check refuses what a step may not have, and redacts its texts.
func (s *Step) check(clean *redact.Redactor) error {
	switch {
	case s.Name == "" || len(s.Name) > maxStepName:
		return fmt.Errorf("name must have 1 to %d bytes", maxStepName)
	case s.StartedAt.IsZero() || s.EndedAt.IsZero():
		return errNoTime
	case len(s.Error) > maxStepText:
		return fmt.Errorf("error must have at most %d bytes", maxStepText)
	case len(s.Attributes) > maxAttributes:
		return fmt.Errorf("there are %d attributes, and a step may have %d", len(s.Attributes), maxAttributes)
	}
	s.Name, s.Error = clean.Text(s.Name), clean.Text(s.Error)
	for key, value := range s.Attributes {
		text, isText := value.(string)
		_, isNumber := value.(json.Number)
		_, isBool := value.(bool)
		switch {
		case key == "" || len(key) > maxStepName:
			return fmt.Errorf("the key of an attribute must have 1 to %d bytes", maxStepName)
		case !isText && !isNumber && !isBool:
			return fmt.Errorf("attribute %q must be a text, a number or a boolean", key)
		case len(text) > maxStepText:
			return fmt.Errorf("attribute %q must have at most %d bytes", key, maxStepText)
		case isText:
			s.Attributes[key] = clean.Text(text)
		}
	}
	return nil
}

// trace makes a span of a recorded result, and one of each of its steps, below the span of the attempt. An agent's clock may be wrong: a step
// begins and ends between the attempt's begin and now.
func (s *server) trace(a tokenAttempt, state *reports.ActionState, status string, began time.Time, steps []Step) {
	if s.Tracer == nil || a.span.Parent == "" {
		return
	}
	now := time.Now()
	for i := range steps {
		from := between(a.span.Began, steps[i].StartedAt, now)
		span := s.Tracer.Start(a.span.Parent, "", "execute_tool "+steps[i].Name, trace.Internal, from, steps[i].attributes()...)
		if steps[i].Error != "" {
			span.Failed("_OTHER", steps[i].Error)
		}
		span.EndAt(between(from, steps[i].EndedAt, now))
	}
	s.Tracer.Start(a.span.Parent, "", "result "+state.Name, trace.Server, began, attribute.String("forebay.subscription", state.Subscription),
		attribute.String("forebay.action", state.Name), attribute.String("forebay.action_id", string(state.ID)),
		attribute.String("forebay.destination", state.Destination), attribute.Int("forebay.attempt", a.ref.Attempt),
		attribute.String("forebay.status", status)).EndAt(now)
}

// between returns at, or the end of the stretch of time that is nearest to it.
func between(from, at, to time.Time) time.Time {
	switch {
	case at.Before(from):
		return from
	case at.After(to):
		return to
	}
	return at
}

// attributes returns the span's attributes: the agent's, then those by the conventions for generative AI of OpenTelemetry 1.41.0, the last version
// that has them. Of two with the same key the last one counts.
func (s *Step) attributes() []attribute.KeyValue {
	list := make([]attribute.KeyValue, 0, len(s.Attributes)+2)
	for key, value := range s.Attributes {
		switch v := value.(type) {
		case string:
			list = append(list, attribute.String(key, v))
		case bool:
			list = append(list, attribute.Bool(key, v))
		case json.Number:
			if n, err := v.Int64(); err == nil {
				list = append(list, attribute.Int64(key, n))
			} else if f, err := v.Float64(); err == nil {
				list = append(list, attribute.Float64(key, f))
			} else {
				list = append(list, attribute.String(key, v.String()))
			}
		}
	}
	return append(list, attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", s.Name))
}
