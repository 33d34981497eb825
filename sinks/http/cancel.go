package httpsink

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/guard"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/stream/sink"
)

// Cancel calls the URL that the destination gave with its 202, which may be relative to the destination's own. The call is signed as all are,
// and goes where the destination's own may go. The configured headers, which may be credentials, go only to where they go anyway: to the
// scheme, host and port of the destination.
func (s *Sink) Cancel(ctx context.Context, c sink.Cancel) error {
	target, err := s.url.Parse(c.URL)
	if err != nil || len(c.URL) > sink.MaxCancelURL {
		return &sink.AttemptError{Class: sink.ClassForbidden, Err: fmt.Errorf("the cancel URL that the destination gave is none")}
	}
	clean := s.redact
	for _, secret := range redact.URL(target) {
		clean = clean.And(schemas.NewSecret(secret))
	}
	body, err := json.Marshal(map[string]string{"action_id": string(c.ID), "reason": c.Reason})
	if err != nil {
		return &sink.AttemptError{Class: sink.ClassBug, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "", bytes.NewReader(body))
	if err != nil {
		return &sink.AttemptError{Class: sink.ClassBug, Err: err}
	}
	req.URL, req.Host = target, target.Host
	if sameOrigin(target, s.url) {
		maps.Copy(req.Header, s.headers)
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", s.agent)
	h.Set("Idempotency-Key", string(c.ID))
	h.Set("Webhook-Id", string(c.ID))
	h.Set(sink.CancelHeader, c.Reason)
	s.sign(h, c.ID, body)
	resp, err := s.client.Do(req)
	if err != nil {
		return clean.Err(err)
	}
	defer resp.Body.Close()
	if class := sink.ClassOfStatus(resp.StatusCode); class != sink.ClassOK {
		return clean.Err(&sink.AttemptError{Class: class, Err: fmt.Errorf("the cancel URL answered %d%s", resp.StatusCode, guard.Location(resp))})
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
