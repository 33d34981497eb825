package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	sinkapi "github.com/forebay-io/forebay/sinks/api"
)

// stripeLog is Stripe's list of events, the newest first, of which it gives those that an endpoint has not taken. A key cannot have one sent
// again, so they are posted to the intake, signed as Stripe signs: those in quarantine are not, since nothing there is a duplicate.
// Source: https://docs.stripe.com/webhooks/process-undelivered-events.
type stripeLog struct {
	*askedAPI
	to *namedSource
}

// missed implements deliveryLog.
func (s *stripeLog) missed(e *env, since time.Time) (list []*missed, more bool, err error) {
	types, err := s.types(e)
	if err != nil {
		return nil, false, err
	}
	known, err := s.quarantined(e, since)
	if err != nil {
		return nil, false, err
	}
	query := url.Values{"created[gte]": {strconv.FormatInt(since.Unix(), 10)}, "delivery_success": {"false"}, "limit": {strconv.Itoa(logPage)}}
	seen := map[string]bool{}
	for page := 0; page < s.cmd.pages(); page++ {
		had, last := len(seen), ""
		more = false
		each := func(l *sinkapi.List) error {
			var body json.RawMessage
			var event struct {
				ID, Type string
				Created  int64
			}
			if err := l.Decode(&body); err != nil {
				return err
			}
			if err := json.Unmarshal(body, &event); err != nil {
				return err
			}
			last = event.ID
			at := time.Unix(event.Created, 0).UTC()
			if !seen[event.ID] && !known[event.ID] && event.Created >= since.Unix() && (slices.Contains(types, "*") || slices.Contains(types, event.Type)) {
				list = append(list, &missed{ID: event.ID, Type: event.Type, At: at, Failed: "not delivered everywhere", body: body})
			}
			seen[event.ID] = true
			return nil
		}
		_, err := s.call(e, sinkapi.Call{Method: http.MethodGet, Path: []string{"v1", "events"}, Query: query, Read: func(l *sinkapi.List) error {
			return l.Object(func(key string) error {
				switch key {
				case "data":
					return l.Each(func() error { return each(l) })
				case "has_more":
					return l.Decode(&more)
				}
				return l.Skip()
			})
		}})
		if err != nil {
			return nil, false, err
		}
		if !more {
			break
		}
		if len(seen) == had {
			return nil, false, schemas.Errorf(schemas.Unavailable, "ask stripe", "it gives the same page again, and says that there are more: %s", s.cmd.next())
		}
		query.Set("starting_after", last)
	}
	slices.Reverse(list) // of one second, the one that came first
	return list, more, nil
}

// quarantined returns the ids of the events that came to quarantine since then, of which it may keep less. By hand, an event that did not come
// counts more than one that comes there twice.
func (s *stripeLog) quarantined(e *env, since time.Time) (map[string]bool, error) {
	ids := map[string]bool{}
	kafka, err := s.cmd.kafka(e, s.to)
	if err == nil {
		_, err = s.to.quarantined(e.ctx, since, kafka, func(kept producer.Item) {
			var event struct{ ID string }
			if kept.Kind == ingest.KindUnusable && json.Unmarshal(kept.Body, &event) == nil {
				ids[event.ID] = true
			}
		})
	}
	if err != nil && s.cmd.role == "" && e.ctx.Err() == nil {
		fmt.Fprintf(e.Stderr, "quarantine cannot be read, so an event that is there is posted once more: %s\n", plain(brokers.Explain(byHand(err)).Error()))
		err = nil
	}
	return ids, err
}

// types are the event types that the endpoint is subscribed to; "*" stands for all, which it is without an endpoint.
func (s *stripeLog) types(e *env) ([]string, error) {
	if s.cmd.Hook == "" {
		return []string{"*"}, nil
	}
	var endpoint struct {
		Types []string `json:"enabled_events"`
	}
	_, err := s.call(e, sinkapi.Call{Method: http.MethodGet, Path: []string{"v1", "webhook_endpoints", s.cmd.Hook}, Read: func(l *sinkapi.List) error { return l.Decode(&endpoint) }})
	return endpoint.Types, err
}

// bring implements deliveryLog. The body is written as Stripe writes it, so that the event is a duplicate where it has come.
func (s *stripeLog) bring(e *env, m *missed) error {
	var body bytes.Buffer
	if err := json.Indent(&body, m.body, "", "  "); err != nil {
		return err
	}
	return s.cmd.post(e, s.to, m, http.Header{"Content-Type": {"application/json; charset=utf-8"}}, body.Bytes())
}

// post posts what was fetched to the intake, signed as the provider signs, and again when the intake wants to be asked later.
func (c *sourcesReconcileCmd) post(e *env, to *namedSource, m *missed, header http.Header, body []byte) error {
	if int64(len(body)) > to.MaxBody { // the intake would answer before it has read it all, and the answer may be lost with the connection
		m.Result, m.Answer = delivery.Refused, tooLarge
		return nil
	}
	for waits := 0; ; waits++ {
		r := &verify.Request{Header: header.Clone(), Body: body}
		if err := to.address(r, time.Now(), to.Source, c.URL); err != nil {
			return err
		}
		answer, err := delivery.Post(e.ctx, r, c.URL == "")
		if err != nil {
			return noAnswer(e, r.URL, err, "is the intake running there?")
		}
		later := answer.RetryAfter > 0 && (answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable)
		if later && waits < maxWaits && answer.RetryAfter <= longestWait {
			fmt.Fprintf(e.Stderr, "the intake answered %d: waiting %s, until %s\n", answer.Status, answer.RetryAfter, formatTime(time.Now().Add(answer.RetryAfter)))
			if err := wait(e.ctx, answer.RetryAfter); err != nil {
				return err
			}
			continue
		}
		m.Result, m.Answer = answer.Result, answer.ID
		if answer.Result == delivery.Quarantined {
			explainQuarantined(e, to.Source, r, names.Source.Print(to.id))
		}
		if answer.Result != delivery.Refused {
			return nil
		}
		m.Answer = clipped(answer.Body)
		if answer.Status == http.StatusRequestEntityTooLarge { // of this one alone
			m.Answer = tooLarge
			return nil
		}
		why := whyRefused([]sent{{Answer: answer}}, func() string { return whyUnauthorized(e, to, c.URL != "") })
		// So would be those behind it, which may be of the same entity.
		return &exitError{code: exitFailed, err: fmt.Errorf("the intake refused %s%s; once that is mended, %s", plain(m.ID), why, c.next())}
	}
}
