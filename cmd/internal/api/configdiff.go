package api

import (
	"context"
	"net/http"
)

// ConfigDifference is what the files of the configuration have and the asked process has not, as it read them last: a key, or a file that it could
// not take. No value of a secret is in it.
type ConfigDifference struct {
	Team    string `json:"team"`    // whose it is; empty: the process's own, or of the main file
	Path    string `json:"path"`    // teams.acme.sources.orders.topic; the path of a file that was not taken
	Running string `json:"running"` // with what the process runs; empty: without
	File    string `json:"file"`    // what the file has; empty: nothing
	Reason  string `json:"reason"`  // needs_restart, or not_taken: the whole file, for its problems
}

// OfAll reports whether it is of every team: the main file was not taken, and with it no team's.
func (d ConfigDifference) OfAll() bool { return d.Team == "" && d.Reason == "not_taken" }

func (s *server) configDiff(ctx context.Context, _ *http.Request) (any, error) {
	page := Page[ConfigDifference]{Items: []ConfigDifference{}}
	if s.ConfigDiff != nil {
		page.Items = append(page.Items, s.ConfigDiff()...)
	}
	if w := who(ctx); !w.All() {
		page.Items = of(page.Items, func(i ConfigDifference) bool { return i.OfAll() || w.Of(i.Team) })
	}
	return page, nil
}

// ConfigDiff lists what the files of the configuration have and the asked process has not.
func (c *Client) ConfigDiff(ctx context.Context) (Page[ConfigDifference], error) {
	return getJSON[Page[ConfigDifference]](ctx, c, "/v1/config/diff", nil)
}
