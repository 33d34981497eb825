package cli

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
)

// teamFlag narrows a list that comes whole.
type teamFlag struct {
	Team string `help:"Only this team."`
}

// ofTeam leaves out of a page what is not of the team: teams has whose an item is, "*" being all. A team of nothing is an error, as a slip
// would look like an empty list.
func ofTeam[T any](f teamFlag, page api.Page[T], teams func(T) []string) (api.Page[T], error) {
	if f.Team == "" {
		return page, nil
	}
	known := map[string]bool{}
	var items []T
	for _, i := range page.Items {
		of := teams(i)
		for _, team := range of {
			known[team] = true
		}
		if slices.Contains(of, f.Team) || slices.Contains(of, "*") {
			items = append(items, i)
		}
	}
	for _, name := range page.Elsewhere {
		team, _, _ := strings.Cut(name, ".")
		known[team] = true
	}
	if len(page.Items) > 0 && !known[f.Team] && !known["*"] {
		return page, schemas.Errorf(schemas.NotFound, "", "team %s has none, or there is no such team%s", f.Team, names.DidYouMean(f.Team, slices.Sorted(maps.Keys(known))))
	}
	page.Items = items
	page.Elsewhere = slices.DeleteFunc(slices.Clone(page.Elsewhere), func(name string) bool { return !strings.HasPrefix(name, f.Team+".") })
	return page, nil
}

// onlySince leaves out of a page what is older than --since says. The list has the newest first, so that what its limit has left out is older
// still: then nothing follows. What has no time stays.
func onlySince[T any](text string, page api.Page[T], at func(T) *time.Time) (api.Page[T], error) {
	since, err := parseSince(text, time.Now())
	if err != nil || since.IsZero() {
		return page, err
	}
	all := len(page.Items)
	page.Items = slices.DeleteFunc(slices.Clone(page.Items), func(i T) bool { t := at(i); return t != nil && t.Before(since) })
	if len(page.Items) < all {
		page.Next = ""
	}
	return page, nil
}
