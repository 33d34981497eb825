package github

import (
	"context"
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

// post is an issue or a comment.
type post struct {
	HTMLURL   string    `json:"html_url"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
}

// reach is how far a look has come.
type reach struct {
	pages, seen int           // that were read
	all         bool          // there is no more to be read, and nothing was found
	ahead       time.Duration // of GitHub's clock, by which it asks
}

// findEarlier looks for the issue or comment that an earlier attempt may have made within a span of time. Issues are listed newest
// first, comments oldest first. The parameter since is about the last change, which is never before the creation.
func (s *Sink) findEarlier(ctx context.Context, path []string, a sink.Action, in sink.Span) (out sink.Outcome, found bool, err error) {
	query := url.Values{"per_page": {strconv.Itoa(pageSize)}}
	if s.do == Issue {
		query.Set("state", "all")
		query.Set("sort", "created")
		query.Set("direction", "desc")
	}
	at := s.looks.At(a, in)
	for ; !at.all && at.pages < maxPages; s.looks.Reach(a, in, at) {
		by := api.Wider(in, at.ahead)
		since := by.From.Add(-skew).UTC().Truncate(time.Second)
		query.Set("since", since.Format(time.RFC3339))
		query.Set("page", strconv.Itoa(at.pages+1))
		if a.Looks != nil {
			a.Looks()
		}
		list := posts{marker: marker(a)}
		answer, err := s.Client.Do(ctx, api.Call{Method: http.MethodGet, Path: path, Query: query, Read: list.read})
		if err != nil {
			return sink.Outcome{}, false, api.Untouched(err)
		}
		if made := list.found; made != nil {
			s.looks.Forget(a)
			return sink.Outcome{Code: answer.Code, Response: fmt.Appendf(nil, "%s of an earlier attempt is there", made.HTMLURL[:min(len(made.HTMLURL), 500)])}, true, nil
		}
		out, err := s.judge(answer)
		if err == nil {
			err = s.CheckWhole("the list of earlier ones", answer)
		}
		if err != nil {
			return out, false, api.Untouched(err)
		}
		if at.pages == 0 && at.ahead == 0 && answer.Ahead != 0 {
			at = reach{ahead: answer.Ahead} // the same again, by its clock
			continue
		}
		last := !strings.Contains(answer.Header.Get("Link"), `rel="next"`) || list.n == 0
		at = reach{at.pages + 1, at.seen + list.n, last || s.pastSpan(list.last, since, by.To), at.ahead}
	}
	if at.all {
		return sink.Outcome{}, false, nil
	}
	s.looks.Forget(a) // whoever runs it again later may find fewer
	return sink.Outcome{}, false, api.Untouched(s.Failed(sink.ClassRejected,
		"whether an earlier attempt has made its %s cannot be told: there are more than %d of that time; look there, then `dlq resolve` the action, or `dlq replay --outcome-unknown` it", s.do, at.seen))
}

// hasMarker reports whether a line of the body begins with the marker, so that the body is ours; bots may have added text after it. A
// marker inside a line, as after the > of a quotation, does not count.
func hasMarker(body, marker string) bool {
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, marker) {
			return true
		}
	}
	return false
}

// pastSpan reports whether the posts listed after t are all outside the span.
func (s *Sink) pastSpan(t post, since, end time.Time) bool {
	if s.do == Issue {
		return t.CreatedAt.Before(since)
	}
	return !end.IsZero() && t.CreatedAt.After(end.Add(skew))
}

// posts is what is read of a page of a list.
type posts struct {
	marker string
	n      int
	last   post  // without its body
	found  *post // the one that has the marker
}

func (p *posts) read(l *api.List) error {
	return l.Each(func() error {
		var t post
		if err := l.Decode(&t); err != nil {
			return err
		}
		if hasMarker(t.Body, p.marker) {
			p.found = &t
		}
		p.n++
		p.last = post{CreatedAt: t.CreatedAt}
		return nil
	})
}
