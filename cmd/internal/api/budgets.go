package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// BudgetItem is one limit of a budget of the file, or that of one entity, and what is used of it in the window that is.
type BudgetItem struct {
	Budget   string    `json:"budget"`    // where the file has it, such as teams.acme.budget
	Team     string    `json:"team"`      // empty: of a shared destination
	Teams    []string  `json:"teams"`     // that may use that one; of an entity, those whose actions it holds up; "*": all
	Of       string    `json:"of"`        // runs or cost
	Each     bool      `json:"each"`      // each entity has one of its own; the row without an entity says what each has
	Source   string    `json:"source"`    // of the entity
	Entity   string    `json:"entity"`    // whose it is; empty: of all together
	Limit    float64   `json:"limit"`     // runs, or in the unit of costs
	Per      string    `json:"per"`       // in what time, as the file has it
	Used     float64   `json:"used"`      // with what processes have set aside
	Left     float64   `json:"left"`      // never below 0
	UsedUp   bool      `json:"used_up"`   // nothing is left
	RenewsAt time.Time `json:"renews_at"` // when the next window begins
	OnLimit  string    `json:"on_limit"`  // what becomes of an action for which nothing is left: hold, park or drop
	Held     *int64    `json:"held"`      // actions that wait for it, of the teams that who asks may ask about, without what stands behind them; null: not counted
	Command  string    `json:"command"`   // lists what it holds, has parked or has dropped
}

func (s *server) budgets(ctx context.Context, r *http.Request) (any, error) {
	items, err := s.Budgets(ctx, r.URL.Query().Get("used_up") == "true")
	w := who(ctx)
	items = of(items, func(i BudgetItem) bool { return i.Team != "" && w.Of(i.Team) || i.Team == "" && w.OfAny(i.Teams) })
	for n := range items {
		items[n].Teams = w.Only(items[n].Teams)
	}
	return listed(items, err)
}

// Budgets lists what is used of the budgets of the file, or those of which nothing is left.
func (c *Client) Budgets(ctx context.Context, usedUp bool) (Page[BudgetItem], error) {
	q := url.Values{}
	if usedUp {
		q.Set("used_up", "true")
	}
	return getJSON[Page[BudgetItem]](ctx, c, "/v1/budgets", q)
}
