package cli

import (
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type budgetsListCmd struct {
	listenerFlag
	watchFlag
	teamFlag
}

func (c *budgetsListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Budgets(e.ctx, false)
	if err == nil {
		page, err = ofTeam(c.teamFlag, page, func(i api.BudgetItem) []string { return append([]string{i.Team}, i.Teams...) })
	}
	if err != nil {
		return err
	}
	type item = api.BudgetItem
	return printList(e, page, func(i item) string { return i.Budget + "." + i.Of },
		column[item]{name: "budget", whole: true, value: func(i item) string { return i.Budget }},
		column[item]{name: "of", value: func(i item) string { return i.Of }},
		column[item]{name: "entity", value: budgetEntity},
		column[item]{name: "limit", value: func(i item) string { return amount(i.Limit) + " in " + i.Per }},
		column[item]{name: "used", value: func(i item) string { return amount(i.Used) }},
		column[item]{name: "left", value: func(i item) string { return amount(i.Left) }},
		column[item]{name: "renews", at: func(i item) *time.Time { return &i.RenewsAt }},
		column[item]{name: "held", value: func(i item) string {
			if i.Held == nil {
				return "unknown"
			}
			return strconv.FormatInt(*i.Held, 10)
		}},
		column[item]{name: "on limit", wide: true, value: func(i item) string { return i.OnLimit }},
		column[item]{name: "command", wide: true, value: func(i item) string { return i.Command }})
}

// budgetEntity returns whose a budget is.
func budgetEntity(i api.BudgetItem) string {
	switch {
	case i.Entity != "":
		return i.Source + " " + i.Entity
	case i.Each:
		return "each"
	}
	return ""
}

func amount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
