package console

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
)

// Logins that were refused, and have a row in the audit: so many a second on the average, and so many at once, whoever they were of. The next
// row counts the others.
const (
	refusalsEvery  = 1.0 / 60
	refusalsAtOnce = 20
)

// auditWithin is how long the outcome of a login may take to be kept.
const auditWithin = 3 * time.Second

// refusals bounds the rows of logins that were refused. Safe for concurrent use.
type refusals struct {
	rates *access.Rates
	more  atomic.Int64 // refused since the last row
}

// enter opens a session for somebody, and keeps in the audit that it does: before, or it opens none.
func (c *Console) enter(r *http.Request, who *access.Who, open func(context.Context, *access.Who) (id string, err error)) (string, error) {
	end, err := c.audited(r, api.ConsoleLogin, who.Name, who.Role)
	if err != nil {
		return "", err
	}
	id, err := open(r.Context(), who)
	end(api.OutcomeFailed, err)
	return id, err
}

// audited begins a row of the audit, about the address that a request comes from; end says what became of it: done, or else for the reason of
// an error.
func (c *Console) audited(r *http.Request, action, actor, role string) (end func(other string, why error), err error) {
	if c.Login.Audit == nil {
		return func(string, error) {}, nil
	}
	id, err := c.Login.Audit.BeginChange(r.Context(), api.AuditItem{Actor: actor, Role: role, Action: action, Object: c.Login.Address(r)})
	if err != nil {
		return nil, err
	}
	return func(other string, why error) {
		item := api.AuditItem{Outcome: api.OutcomeDone}
		if why != nil {
			item.Outcome, item.Detail = other, why.Error()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditWithin)
		defer cancel()
		if err := c.Login.Audit.EndChange(ctx, id, item); err != nil {
			c.Logger.Warn("the audit does not say what became of a login or logout", "id", id, "outcome", item.Outcome, "error", err)
		}
	}, nil
}

// recordRefusal notes in the audit that somebody was not let in, as long as there are not too many of them. That it cannot be kept is in the log.
func (c *Console) recordRefusal(r *http.Request, actor string, why error) {
	if c.refusals.rates.Take("") > 0 {
		c.refusals.more.Add(1)
		return
	}
	if n := c.refusals.more.Swap(0); n > 0 {
		why = fmt.Errorf("%w; before it, %d more were refused that have no row of their own", why, n)
	}
	end, err := c.audited(r, api.ConsoleLogin, actor, "")
	if err != nil {
		c.Logger.Warn("a login that was refused is not in the audit", "actor", actor, "address", c.Login.Address(r), "error", err)
		return
	}
	end(api.OutcomeRefused, why)
}
