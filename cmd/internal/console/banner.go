package console

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// bannerTimeout is how long a page waits for what stands above it.
const bannerTimeout = 2 * time.Second

// notice is what every page says first: what does not run at all, until when, and which command ends that.
type notice struct{ Text, Command string }

// banner returns what is paused, and of which budgets nothing is left, as far as who looks may see it.
func (c *Console) banner(ctx context.Context) (all []notice) {
	if !c.Stream {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bannerTimeout)
	defer cancel()
	var parts sync.WaitGroup
	var found [3][]notice
	ask := func(n int, what string, question func() ([]notice, error)) {
		parts.Go(func() {
			list, err := question()
			if err != nil {
				list = []notice{{Text: "What is " + what + " is not known: " + err.Error()}}
			}
			found[n] = list
		})
	}
	ask(0, "paused", func() (list []notice, err error) {
		page, err := c.API.Pauses(ctx)
		for _, i := range page.Items {
			if i.Paused != nil {
				of := map[string]string{api.PauseAll: "Everything", api.PauseTeam: "Team " + i.Name, api.PauseAgent: "Agent " + i.Name}[i.Scope]
				list = append(list, paused(of, i.Paused, "forebay resume "+strings.TrimSpace("--"+i.Scope+" "+i.Name)))
			}
		}
		return list, err
	})
	ask(1, "paused of destinations", func() (list []notice, err error) {
		page, err := c.API.Destinations(ctx)
		for _, i := range page.Items {
			if i.Paused != nil && i.Paused.Scope == "" { // else one line says it of all
				name := strings.TrimPrefix(i.Team+"/"+i.Destination, "/")
				list = append(list, paused("Destination "+name, i.Paused, "forebay destinations resume "+name))
			}
		}
		return list, err
	})
	ask(2, "used up", func() (list []notice, err error) {
		page, err := c.API.Budgets(ctx, true)
		for _, i := range page.Items {
			whose := ""
			if i.Entity != "" {
				whose = " of entity " + i.Source + " " + i.Entity
			}
			list = append(list, notice{fmt.Sprintf("Budget %s.%s%s is used up: %s in %s; there is room again at %s, or once its limit in the file is higher",
				i.Budget, i.Of, whose, strconv.FormatFloat(i.Limit, 'f', -1, 64), i.Per,
				i.RenewsAt.UTC().Format(time.RFC3339)), i.Command})
		}
		return list, err
	})
	parts.Wait()
	for _, list := range found {
		all = append(all, list...)
	}
	return all
}

func paused(what string, p *api.PauseItem, command string) notice {
	since := ""
	if !p.At.IsZero() {
		since = " since " + p.At.UTC().Format(time.RFC3339)
	}
	return notice{what + " is paused" + since + " by " + p.By + ": " + p.Reason, command + " --reason TEXT"}
}
