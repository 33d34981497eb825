package config

import (
	"time"

	"github.com/forebay-io/forebay/cmd/internal/brokers"
	"github.com/forebay-io/forebay/ingest/firstfilter"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// KeepRefused says how many refused deliveries of a source are kept, by each process.
type KeepRefused struct {
	Share Fraction `yaml:"share"`
	Most  int      `yaml:"most"`
	Bytes Size     `yaml:"bytes"`
}

// Fraction is a part of all, above 0 and 1 at most.
type Fraction float64

// FirstFilter says what answers repeats before they reach the log.
type FirstFilter struct {
	Redis RedisFilter `yaml:"redis"`
}

// RedisFilter is a Redis that all intakes ask, and for how long it knows what was acknowledged.
type RedisFilter struct {
	URL    schemas.Secret `yaml:"url"`
	Window Duration       `yaml:"window"`
	CAFile string         `yaml:"ca_file"`
}

// FirstFilters returns the filters of sources by their names in events, /TEAM/SOURCE, with the paths of their files completed.
func (c *Config) FirstFilters() map[string]RedisFilter {
	filters := map[string]RedisFilter{}
	for team, t := range c.Teams {
		for name, s := range t.Sources {
			if s.FirstFilter != nil {
				filters["/"+team+"/"+name] = c.foundFilter(s.FirstFilter.Redis)
			}
		}
	}
	return filters
}

func (c *Config) foundFilter(r RedisFilter) RedisFilter {
	r.CAFile = c.found(&KafkaTLS{CAFile: r.CAFile}).CAFile
	return r
}

// firstFilter checks a filter. A repeat that it answers must be one that every ledger still knows, so its window is no longer than the time in
// which a provider delivers again. A team's file has none: the intake would call for it what listens in the networks of the process.
func (ck sourceCheck) firstFilter() {
	at := ck.path + ".first_filter"
	if ck.s.FirstFilter == nil {
		return
	}
	if ck.c.at(at).file != ck.c.places[""].file {
		ck.problem(at, "stands in the main file only: a team's file names no address that the intake calls")
		return
	}
	r, redis := ck.c.foundFilter(ck.s.FirstFilter.Redis), at+".redis"
	ck.between(redis+".window", r.Window, Duration(time.Minute), RedeliveryHorizon)
	if !ck.unresolved(redis+".url") && ck.written(redis+".url") {
		if err := firstfilter.Check(r.URL); err != nil {
			ck.problem(redis+".url", "%v", err)
		}
	}
	if r.CAFile != "" && !ck.unresolved(redis+".ca_file") && ck.options.uses(redis+".ca_file") {
		if _, err := brokers.Authorities(r.CAFile); err != nil {
			ck.problem(redis+".ca_file", "%v", err)
		}
	}
}

// Reconcile says how the intake asks a source's provider for what it has failed to deliver.
type Reconcile struct {
	Every  Duration       `yaml:"every"`
	Since  Duration       `yaml:"since"`
	Token  schemas.Secret `yaml:"token"`
	Hook   string         `yaml:"hook"`
	APIURL string         `yaml:"api_url"`
}

// reconcile checks that the provider can be asked. A team's file names no other address than the provider's own, as with first_filter.
func (ck sourceCheck) reconcile() {
	at, r := ck.path+".reconcile", ck.s.Reconcile
	if r == nil {
		return
	}
	ck.between(at+".every", r.Every, Duration(time.Minute), Duration(24*time.Hour))
	most := Duration(30 * 24 * time.Hour)
	if ck.s.Preset == "stripe" { // whose events come as they were: dedupe has to remember them
		most = RedeliveryHorizon
	}
	ck.between(at+".since", r.Since, r.Every, most)
	switch {
	case ck.s.Preset != "github" && ck.s.Preset != "stripe" && ck.s.Preset != "shopify":
		ck.problem(at, "is for the presets github, stripe and shopify, whose providers can be asked")
	case ck.s.Preset == "github" && r.Hook == "" && !ck.unresolved(at+".hook"):
		ck.problem(at+".hook", "is missing: OWNER/REPO/HOOK_ID, orgs/ORG/HOOK_ID, or app")
	case ck.s.Preset == "shopify" && r.Hook == "" && !ck.unresolved(at+".hook"):
		ck.problem(at+".hook", "is missing: SHOP.myshopify.com/API_VERSION/TOPIC,...")
	case ck.s.Preset == "shopify" && r.Since.Std() < ShopifyRepeats()+r.Every.Std():
		ck.problem(at+".since", "is shorter than every and %s together: what changed within the latter is left to Shopify, which may still repeat its webhook", Duration(ShopifyRepeats()))
	case r.APIURL != "" && ck.c.at(at).file != ck.c.places[""].file:
		ck.problem(at+".api_url", "stands in the main file only: a team's file names no address that the intake calls")
	case ck.options.Embedded && !ck.options.Look:
		ck.note(at, "goes with `forebay serve`; `forebay dev` asks no provider: `forebay sources reconcile` does so once")
	case ck.s.Preset == "github" && r.Hook == "app":
		if written, _ := ck.c.written(at + ".token"); !fileReference.MatchString(written) {
			ck.note(at+".token", "a JWT of an app ends after 10 minutes: have a program write a new one to a file, and name that as ${file:PATH}, which is read again")
		}
	}
}

// ShopifyRepeats is for how long after a change its webhook may come: as Shopify repeats it, and as far as clocks may be apart.
func ShopifyRepeats() time.Duration {
	info, _ := provider.Lookup("shopify")
	return info.RetryHorizon.Std() + 10*time.Minute
}

// keepRefused notes where refused deliveries cannot be verified again, so that only those over a quota are kept.
func (ck sourceCheck) keepRefused() {
	at, k := ck.path+".keep_refused", ck.s.KeepRefused
	if k == nil {
		return
	}
	ck.atMost(at+".most", k.Most, 1_000_000)
	if ck.s.scheme() == verify.SchemeToken && !ck.unresolved(ck.path+".verify.scheme") {
		ck.note(at, "keeps only what is over a quota: the sender shows the secret itself, of which nothing is kept, so that nothing could be verified again")
	}
}
