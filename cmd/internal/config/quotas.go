package config

import "github.com/forebay-io/forebay/cmd/internal/names"

// Quotas limit what each team has, whatever its file says. The main file alone has them.
type Quotas struct {
	Default Quota `yaml:"default"`
	// Teams have what is another for a team than by default.
	Teams map[string]*Quota `yaml:"teams"`
}

// Quota is what a team may have at most; a zero is no limit.
type Quota struct {
	Sources       int `yaml:"sources"`
	Subscriptions int `yaml:"subscriptions"`
	// Partitions are those of all topics of the team: of events, of quarantine and of dead letters.
	Partitions int `yaml:"partitions"`
	// Rate limits the deliveries to all of its sources, in each process with the intake role; nil is no limit.
	Rate *Rate `yaml:"rate"`
}

// Quota returns the quota of a team.
func (c *Config) Quota(team string) Quota {
	if q := c.Quotas.Teams[team]; q != nil {
		return *q
	}
	return c.Quotas.Default
}

// fillQuotas gives the teams that have a quota of their own what it leaves out.
func (c *Config) fillQuotas() {
	all := c.Quotas.Default
	rates := []*Rate{all.Rate}
	for team, q := range c.Quotas.Teams {
		path := "quotas.teams." + team
		for _, n := range []struct {
			key    string
			mine   *int
			others int
		}{{".sources", &q.Sources, all.Sources}, {".subscriptions", &q.Subscriptions, all.Subscriptions}, {".partitions", &q.Partitions, all.Partitions}} {
			if _, written := c.places[path+n.key]; !written {
				*n.mine = n.others
			}
		}
		if q.Rate == nil {
			q.Rate = all.Rate
		}
		rates = append(rates, q.Rate)
	}
	for _, r := range rates {
		if r != nil && r.Burst == 0 {
			r.Burst = r.Limit
		}
	}
}

// partitionsOf returns how many partitions the topics of a team have together.
func (t *Team) partitionsOf() int {
	n := len(t.Sources) + len(t.Subscriptions) // of quarantine and of dead letters: one each
	for _, s := range t.Sources {
		n += s.Topics.Partitions
	}
	return n
}

// quotas checks the quotas themselves, and that no team has more than its own.
func (ck *checker) quotas() {
	ck.rate("quotas.default.rate", ck.c.Quotas.Default.Rate)
	for _, team := range keys(ck.c.Quotas.Teams) {
		path := "quotas.teams." + team
		if ck.written(path + ".rate") {
			ck.rate(path+".rate", ck.c.Quotas.Teams[team].Rate)
		}
		if ck.c.Teams[team] == nil {
			ck.note(path, "there is no team %s%s", team, names.DidYouMean(team, keys(ck.c.Teams)))
		}
	}
	for _, team := range keys(ck.c.Teams) {
		t, q, path := ck.c.Teams[team], ck.c.Quota(team), "teams."+team
		ck.within(path+".sources", team, "sources", len(t.Sources), q.Sources)
		ck.within(path+".subscriptions", team, "subscriptions", len(t.Subscriptions), q.Subscriptions)
		ck.within(path+".sources", team, "partitions", t.partitionsOf(), q.Partitions)
	}
}

// within reports that a team has n of something, and its quota is less. The problem is at path.
func (ck *checker) within(path, team, what string, n, quota int) {
	if quota == 0 || n <= quota {
		return
	}
	at := "quotas.teams." + team + "." + what
	if !ck.written(at) {
		at = "quotas.default." + what
	}
	of := what
	if what == "partitions" {
		of = "partitions in all its topics, of quarantine and dead letters too,"
	}
	ck.problem(path, "team %s has %d %s and its quota is %d: take some out, or ask whoever has the main file for more (%s, %s)", team, n, of, quota, at, ck.where(at))
}
