package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/forebay-io/forebay/cmd/internal/delivery"
	sinkapi "github.com/forebay-io/forebay/sinks/api"
)

// githubLog is the log of a GitHub hook: attempts, the newest first, those of one delivery under one guid.
// Source: https://docs.github.com/rest/repos/webhooks, https://docs.github.com/rest/apps/webhooks.
type githubLog struct {
	*askedAPI
	hook  []string
	limit *rate.Limiter
	rests time.Time // what the intake itself has refused since then is left for longer and longer; zero: nothing is
}

// githubAttempt is an entry of the log.
type githubAttempt struct {
	ID          int64     `json:"id"`
	GUID        string    `json:"guid"`
	DeliveredAt time.Time `json:"delivered_at"`
	StatusCode  int       `json:"status_code"`
	Status      string    `json:"status"` // OK, or why not
	Event       string    `json:"event"`
	Action      string    `json:"action"`
}

// newAskLimit: GitHub wants a second between requests that change something. A few at once it takes.
func newAskLimit() *rate.Limiter { return rate.NewLimiter(rate.Every(time.Second), 10) }

var hookID = regexp.MustCompile(`^[0-9]+$`)

// githubHook returns the path of a hook.
func (c *sourcesReconcileCmd) githubHook() ([]string, error) {
	text := c.Hook
	parts := strings.Split(text, "/")
	switch {
	case text == "app":
		return []string{"app", "hook"}, nil
	case len(parts) != 3 || slices.Contains(parts, "") || !hookID.MatchString(parts[2]):
		return nil, usageError("%s %q is none of OWNER/REPO/HOOK_ID, orgs/ORG/HOOK_ID and app; the id is the number in the address of the hook's page at GitHub", c.setting("hook"), text)
	case parts[0] == "orgs":
		return []string{"orgs", parts[1], "hooks", parts[2]}, nil
	}
	return []string{"repos", parts[0], parts[1], "hooks", parts[2]}, nil
}

// missed implements deliveryLog. What the intake refuses may be refused for good: each new attempt is another entry of the log, so that it would be asked
// for at every turn. Where the log rests, it waits each time for twice as long as before, until the last attempt is older than what is looked for; what was refused
// before the process had its present file may be taken by now. It reads until a page has nothing that is new enough: pages overlap, and order is nearly kept.
func (g *githubLog) missed(e *env, since time.Time) (list []*missed, more bool, err error) {
	query := url.Values{"per_page": {strconv.Itoa(githubPage)}}
	seen, by := map[int64]bool{}, map[string]*missed{}
	for page := 0; ; page++ {
		if page == g.cmd.pages() {
			more = true
			break
		}
		recent := false
		answer, err := g.call(e, sinkapi.Call{Method: http.MethodGet, Path: append(slices.Clone(g.hook), "deliveries"), Query: query, Read: func(l *sinkapi.List) error {
			return l.Each(func() error {
				var a githubAttempt
				if err := l.Decode(&a); err != nil || seen[a.ID] {
					return err
				}
				seen[a.ID] = true
				recent = recent || !a.DeliveredAt.Before(since)
				a.add(by)
				return nil
			})
		}})
		if err != nil {
			return nil, false, err
		}
		next := nextCursor(answer.Header, "cursor")
		if next == "" || next == query.Get("cursor") || !recent {
			break
		}
		query.Set("cursor", next)
	}
	for _, m := range by {
		if !m.arrived && !m.lastAt.Before(since) && !(!g.rests.IsZero() && m.refused && m.lastAt.After(g.rests) && time.Since(m.lastAt) < m.lastAt.Sub(m.At)) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b *missed) int { return cmp.Compare(a.last, b.last) })
	return list, more, nil
}

// add adds the attempt to its delivery.
func (a *githubAttempt) add(by map[string]*missed) {
	m := by[a.GUID]
	if m == nil {
		m = &missed{ID: a.GUID, Type: strings.TrimSuffix(a.Event+"."+a.Action, "."), At: a.DeliveredAt}
		by[a.GUID] = m
	}
	m.Attempts++
	m.arrived = m.arrived || a.StatusCode/100 == 2
	if a.DeliveredAt.Before(m.At) {
		m.At = a.DeliveredAt
	}
	if m.last == 0 || a.DeliveredAt.After(m.lastAt) {
		m.last, m.lastAt, m.Failed = a.ID, a.DeliveredAt, strings.TrimSpace(fmt.Sprintf("%d %s", a.StatusCode, a.Status))
		m.refused = a.StatusCode/100 == 4 && a.StatusCode != http.StatusRequestTimeout && a.StatusCode != http.StatusTooManyRequests
	}
}

var linkNext = regexp.MustCompile(`<([^<>]*)>[^<>]*;\s*rel="?next"?`)

// nextCursor is where the next page begins, by the Link of an answer; empty: it was the last one. No more of the link is followed: the token
// goes to the address that was named, and nowhere else.
func nextCursor(h http.Header, parameter string) string {
	found := linkNext.FindStringSubmatch(strings.Join(h.Values("Link"), ", "))
	if found == nil {
		return ""
	}
	u, err := url.Parse(found[1])
	if err != nil {
		return ""
	}
	return u.Query().Get(parameter)
}

// bring implements deliveryLog: GitHub makes another attempt. 404 speaks of the token: the hook has just listed the delivery.
func (g *githubLog) bring(e *env, m *missed) error {
	if err := g.limit.Wait(e.ctx); err != nil {
		return err
	}
	answer, err := g.call(e, sinkapi.Call{Method: http.MethodPost, Path: append(slices.Clone(g.hook), "deliveries", strconv.FormatInt(m.last, 10), "attempts")},
		http.StatusUnprocessableEntity, http.StatusBadRequest)
	switch {
	case err != nil:
	case answer.Code/100 == 2:
		m.Result = missedAsked
	default: // too old, for one
		m.Result, m.Answer = delivery.Refused, fmt.Sprintf("%d %s", answer.Code, said(answer))
	}
	return err
}
