package cli

import (
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// auditListCmd lists what was changed through the operator API, and what was refused.
type auditListCmd struct {
	listenerFlag
	watchFlag
	Team   string `help:"Only of this team."`
	Actor  string `placeholder:"TOKEN" help:"Only by this actor: a token's name; oidc:NAME (a person whom the provider knows); loopback or ledger (no token was needed); nobody (a failed login); forebay (approvals that became void)."`
	Action string `help:"Only this action: destination.pause, dlq.replay, console.login, ..."`
	Object string `help:"Only about this, as the list shows it."`
	Since  string `help:"Only since: a duration back (1h, 2d) or an RFC 3339 time."`
	Limit  int    `default:"50" help:"Most changes, 1 to 1000."`
	Cursor string `help:"Go on behind the page that ended with this."`
}

func (c *auditListCmd) Run(e *env, client *api.Client) error {
	since, err := parseSince(c.Since, time.Now())
	if err != nil {
		return err
	}
	page, err := client.Changes(e.ctx, api.AuditFilter{Team: c.Team, Actor: c.Actor, Action: c.Action, Object: c.Object, Since: since, Limit: c.Limit, Cursor: c.Cursor})
	if err != nil {
		return err
	}
	type item = api.AuditItem
	return printList(e, page, func(i item) string { return strconv.FormatInt(i.ID, 10) },
		column[item]{name: "at", at: func(i item) *time.Time { return &i.At }},
		column[item]{name: "actor", value: func(i item) string { return i.Actor }},
		column[item]{name: "role", wide: true, value: func(i item) string { return i.Role }},
		column[item]{name: "by", wide: true, value: func(i item) string { return i.By }},
		column[item]{name: "action", value: func(i item) string { return i.Action }},
		column[item]{name: "team", wide: true, value: func(i item) string { return i.Team }},
		column[item]{name: "object", tail: true, value: func(i item) string { return i.Object }},
		column[item]{name: "outcome", value: func(i item) string { return i.Outcome }},
		column[item]{name: "reason", value: func(i item) string { return i.Reason }},
		column[item]{name: "why not", wide: true, value: func(i item) string { return i.Detail }},
		column[item]{name: "id", wide: true, value: func(i item) string { return strconv.FormatInt(i.ID, 10) }})
}
