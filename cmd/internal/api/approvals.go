package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Approvals lists what waits for a person's word, and takes it. Errors are *schemas.Error.
type Approvals interface {
	Approvals(ctx context.Context, f ApprovalFilter) (Page[ApprovalItem], error)
	Approval(ctx context.Context, id int64) (*ApprovalItem, error)
	AnswerApproval(ctx context.Context, id int64, approve bool, r ApprovalRequest) (*ApprovalItem, error)
}

// ApprovalItem is a person's word on one run of an action, or the question for it.
type ApprovalItem struct {
	ID           string     `json:"id"`
	Team         string     `json:"team"`
	Subscription string     `json:"subscription"`
	Action       string     `json:"action"`
	ActionID     string     `json:"action_id"`
	Destination  string     `json:"destination"`
	Digest       string     `json:"digest"` // of what is to be sent, as SHA-256 in hexadecimal: an answer is for that alone
	Source       string     `json:"source"`
	EventID      string     `json:"event_id"`
	Type         string     `json:"type"`
	Entity       string     `json:"entity"`
	Version      string     `json:"version"`
	Why          string     `json:"why"`   // it is asked for
	Sends        string     `json:"sends"` // what is to be sent, of which the digest is: parameters and the event's body, cut off behind 16 KiB; empty in lists, and once it has ended
	Roles        []string   `json:"roles"` // whose word counts, beside that of admins
	FourEyes     bool       `json:"four_eyes"`
	State        string     `json:"state"` // waiting, approved, used, denied, expired or void
	AskedAt      time.Time  `json:"asked_at"`
	ExpiresAt    time.Time  `json:"expires_at"`
	FirstBy      string     `json:"first_by"` // of two persons, who has approved it
	AnsweredBy   string     `json:"answered_by"`
	Reason       string     `json:"reason"`
	AnsweredAt   *time.Time `json:"answered_at"`
	Asks         string     `json:"asks"`       // the destination that is told of the question; empty: none is
	ToldAt       *time.Time `json:"told_at"`    // when it was; null: it was not
	TellError    string     `json:"tell_error"` // why not, of the last try
	GivenUp      bool       `json:"given_up"`   // it refused for good: nobody is told any more
	Removed      string     `json:"removed"`    // that the file has the action no more, or not for its destination, so that no answer lets it run, and what to do; empty: it has
}

// Told says in a word whether the destination was told; empty where none is.
func (i *ApprovalItem) Told() string {
	switch {
	case i.Asks == "":
		return ""
	case i.ToldAt != nil:
		return "yes"
	case i.GivenUp:
		return "given up"
	}
	return "not yet"
}

// NotTold says what to do about a question that its destination has refused for good.
const NotTold = "nobody was told, and nobody will be: mend the destination for the next question, and answer this one"

// ApprovalWaiting is the state of what nobody has answered.
const ApprovalWaiting = string(ledger.ApprovalWaiting)

// ApprovalVoid is the state of what nobody will use any more; its reason says why.
const ApprovalVoid = string(ledger.ApprovalVoid)

// ApprovalStates are all states of approvals.
func ApprovalStates() (states []string) {
	for _, s := range ledger.ApprovalStates() {
		states = append(states, string(s))
	}
	return states
}

// ApprovalFilter narrows a list of approvals.
type ApprovalFilter struct {
	Team   string // empty: all
	State  string // empty: any
	Limit  int
	Cursor string
}

// ApprovalRequest answers the question for an approval. By is who says so, as the client tells it.
type ApprovalRequest struct {
	Reason string `json:"reason"`
	By     string `json:"by"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// What can be said to an approval.
const (
	VerbApprove = "approve"
	VerbDeny    = "deny"
)

func (s *server) approvals(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	f := ApprovalFilter{State: q.Get("state"), Cursor: q.Get("cursor"), Team: q.Get("team")}
	if f.State == "any" {
		f.State = ""
	}
	if f.State != "" && !slices.Contains(ApprovalStates(), f.State) {
		return nil, schemas.Errorf(schemas.Invalid, "", "state %q is none of waiting, approved, used, denied, expired, void; any lists all", f.State)
	}
	var err error
	if f.Limit, _, err = limitAndSince(q); err != nil {
		return nil, err
	}
	return paged(s.Approvals.Approvals(ctx, f))
}

// oneApproval returns the approval of the path, if who asks may see it.
func (s *server) oneApproval(ctx context.Context, r *http.Request) (int64, *ApprovalItem, error) {
	id, err := strconv.ParseInt(r.PathValue("approval"), 10, 64)
	if err != nil {
		return 0, nil, schemas.Errorf(schemas.Invalid, "", "%q is no id of an approval", r.PathValue("approval"))
	}
	item, err := s.Approvals.Approval(ctx, id)
	if err == nil && !who(ctx).Of(item.Team) || schemas.KindOf(err) == schemas.NotFound && !who(ctx).All() {
		return 0, nil, errNotYours
	}
	return id, item, err
}

func (s *server) approval(ctx context.Context, r *http.Request) (any, error) {
	_, item, err := s.oneApproval(ctx, r)
	return item, err
}

// answerApproval takes a person's word, of whom the approval names the role.
func (s *server) answerApproval(ctx context.Context, r *http.Request) (any, error) {
	verb := r.PathValue("verb")
	if verb != VerbApprove && verb != VerbDeny {
		return nil, nothingAt(r)
	}
	var req ApprovalRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	id, item, err := s.oneApproval(ctx, r)
	if err != nil {
		return nil, err
	}
	if w := who(ctx); w.Name != "" && w.Role != "admin" && !slices.Contains(item.Roles, w.Role) {
		return nil, &forbidden{fmt.Sprintf("%s has the role %s, and this approval is for %s", w, w.Role, strings.Join(item.Roles, ", "))}
	}
	return s.Approvals.AnswerApproval(ctx, id, verb == VerbApprove, req)
}

// Approvals lists approvals, the newest first.
func (c *Client) Approvals(ctx context.Context, team, state string, limit int, cursor string) (Page[ApprovalItem], error) {
	return getJSON[Page[ApprovalItem]](ctx, c, "/v1/approvals", query(limit, time.Time{}, map[string]string{"team": team, "state": state, "cursor": cursor}))
}

// Approval returns one approval.
func (c *Client) Approval(ctx context.Context, id string) (*ApprovalItem, error) {
	return getJSON[*ApprovalItem](ctx, c, "/v1/approvals/"+url.PathEscape(id), nil)
}

// AnswerApproval approves or denies, by the verb; a dry run says whether that may be.
func (c *Client) AnswerApproval(ctx context.Context, id, verb string, r ApprovalRequest) (*ApprovalItem, error) {
	return postJSON[*ApprovalItem](ctx, c, "/v1/approvals/"+url.PathEscape(id)+"/"+verb, r)
}
