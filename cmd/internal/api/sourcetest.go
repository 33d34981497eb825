package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas"
)

// SourceTest asks that a delivery be signed with a source's first secret, as its provider does, and sent to the intake. By is who says so, as the
// client tells it.
type SourceTest struct {
	Body    string            `json:"body"`
	Headers map[string]string `json:"headers,omitempty"` // beside those that are signed; without a Content-Type it is JSON
	// To must have what the dry run's To has: who sends a test has seen where it goes.
	To     []string `json:"to,omitempty"`
	Reason string   `json:"reason"`
	By     string   `json:"by"`
	DryRun bool     `json:"dry_run,omitempty"`
}

// SourceTested is what becomes of a test delivery.
type SourceTested struct {
	State  string `json:"state"`  // planned (a dry run) or done
	Result string `json:"result"` // one of delivery.Answer
	Status int    `json:"status"` // of the intake's answer; 0: planned
	// These are of the event that the source's mapping makes of it; empty if it makes none.
	EventID string `json:"event_id"`
	// IDs are the headers with ids that were made up for it. Who sends them along sends the same delivery: the event is a duplicate then, on which
	// nobody acts again.
	IDs    map[string]string `json:"ids"`
	Type   string            `json:"type"`
	Entity string            `json:"entity"`
	Why    string            `json:"why"` // why there is no event, as far as this process knows
	// To is who reads such an event, by types and match, and acts on it as on any other, by rules of its own: subscriptions of the source's team, and other teams.
	To []string `json:"to"`
}

// SourceTests sends test deliveries. Errors are *schemas.Error.
type SourceTests interface {
	// TestSource sends a test, unless it is a dry run: then it only says what would become of it. It sends just what it has planned, if may, which
	// gets the plan, returns no error.
	TestSource(ctx context.Context, team, source string, r SourceTest, may func(*SourceTested) error) (*SourceTested, error)
}

// testSource sends a test delivery. The route asks for the right Sources; where somebody reads the event, it takes Operate, too.
func (s *server) testSource(ctx context.Context, r *http.Request) (any, error) {
	if s.SourceTests == nil {
		return nil, schemas.Errorf(schemas.Conflict, "", "this process has no intake role, so it takes no deliveries; ask one that runs `forebay serve --roles intake`")
	}
	var req SourceTest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return s.SourceTests.TestSource(ctx, r.PathValue("team"), r.PathValue("source"), req, func(planned *SourceTested) error {
		if !slices.Equal(planned.To, req.To) {
			return schemas.Errorf(schemas.Conflict, "", "nothing was sent: the event goes to %s, and not to %s; look at what it would do again", namesOr(planned.To), namesOr(req.To))
		}
		if w := who(ctx); len(planned.To) > 0 && !w.May(access.Operate) {
			return mayNot(w, access.Operate)
		}
		return nil
	})
}

func namesOr(list []string) string {
	if len(list) == 0 {
		return "nobody"
	}
	return strings.Join(list, ", ")
}

// TestSource sends a test delivery; a dry run says what would become of it.
func (c *Client) TestSource(ctx context.Context, team, source string, r SourceTest) (*SourceTested, error) {
	return postJSON[*SourceTested](ctx, c, "/v1/sources/"+url.PathEscape(team)+"/"+url.PathEscape(source)+"/test", r)
}
