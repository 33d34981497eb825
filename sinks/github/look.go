package github

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/stream/sink"
)

// Bounds of the look for what an earlier attempt made.
const (
	pageSize = 50
	maxPages = 20
	skew     = 5 * time.Minute // between our clock and GitHub's
)

// thing is an issue or a comment.
type thing struct {
	HTMLURL   string    `json:"html_url"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
}

// made looks for the issue or comment of an attempt within a span, where it would have been made.
// Issues come newest first, comments oldest first; since is about the last change of both, so nothing is left out.
func (s *Sink) made(ctx context.Context, path []string, a sink.Action, in sink.Span) (out sink.Outcome, found bool, err error) {
	since := in.From.Add(-skew).UTC().Truncate(time.Second)
	query := url.Values{"since": {since.Format(time.RFC3339)}, "per_page": {strconv.Itoa(pageSize)}}
	if s.do == Issue {
		query.Set("state", "all")
		query.Set("sort", "created")
		query.Set("direction", "desc")
	}
	seen := 0
	for page := 1; page <= maxPages; page++ {
		query.Set("page", strconv.Itoa(page))
		answer, err := s.Client.Do(ctx, api.Call{Method: http.MethodGet, Path: path, Query: query})
		if err != nil {
			return sink.Outcome{}, false, api.Untouched(err)
		}
		things, err := s.things(answer)
		if err != nil {
			return s.outcome(answer), false, api.Untouched(err)
		}
		seen += len(things)
		for _, t := range things {
			if hasMarker(t.Body, marker(a)) {
				return sink.Outcome{Code: answer.Code, Response: fmt.Appendf(nil, "%s of an earlier attempt is there", t.HTMLURL[:min(len(t.HTMLURL), 500)])}, true, nil
			}
		}
		last := !strings.Contains(answer.Header.Get("Link"), `rel="next"`) || len(things) == 0
		if last || s.beyond(things[len(things)-1], since, in.To) {
			return sink.Outcome{}, false, nil
		}
	}
	return sink.Outcome{}, false, api.Untouched(s.Failed(sink.ClassRejected,
		"whether an earlier attempt has made its %s cannot be told: there are more than %d of that time; look there, then `dlq resolve` the action, or `dlq replay --outcome-unknown` it", s.do, seen))
}

// hasMarker reports whether a body is ours by the marker, which begins a line of it, whatever bots have put behind. Within a
// line, as after the > of a quotation, it is another's word.
func hasMarker(body, marker string) bool {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, marker) {
			return true
		}
	}
	return false
}

// beyond reports whether nothing that comes after t can have been made by an earlier attempt.
func (s *Sink) beyond(t thing, since, end time.Time) bool {
	if s.do == Issue {
		return t.CreatedAt.Before(since)
	}
	return !end.IsZero() && t.CreatedAt.After(end.Add(skew))
}

// things reads a page.
func (s *Sink) things(answer api.Answer) ([]thing, error) {
	if err := s.judge(answer); err != nil {
		return nil, err
	}
	if err := s.Whole("the list of earlier ones", answer); err != nil {
		return nil, err
	}
	var list []thing
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, s.Failed(sink.ClassBusy, "the list of earlier ones cannot be read")
	}
	return list, nil
}
