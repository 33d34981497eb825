package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/app"
	"github.com/forebay-io/forebay/cmd/internal/build"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/delivery"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
	sinkapi "github.com/forebay-io/forebay/sinks/api"
)

type sourcesReconcileCmd struct {
	fileFlags
	Source    string        `arg:"" name:"team/source" help:"The source, of preset github, stripe or shopify."`
	Since     time.Duration `default:"24h" help:"Look for what its provider has failed to deliver for so long. GitHub can send again for 3 days; of Stripe 7 days at most; of Shopify, more than the 4h for which it repeats by itself."`
	TokenFile string        `required:"" placeholder:"FILE" help:"File with a token of the provider's API: one that may read the hook's deliveries and have them sent again (a JWT for app), a Stripe key that may read events, or a Shopify access token that may read the resources."`
	Hook      string        `placeholder:"HOOK" help:"GitHub: OWNER/REPO/HOOK_ID, orgs/ORG/HOOK_ID, or app. Stripe: the endpoint (we_...), to keep to the types that it is subscribed to. Shopify: SHOP.myshopify.com/API_VERSION/TOPIC,..., such as acme.myshopify.com/2026-07/orders/updated,products/update."`
	APIURL    string        `name:"api-url" placeholder:"URL" help:"Base URL of the provider's API, as GitHub Enterprise has its own: https://HOST/api/v3."`
	URL       string        `name:"url" help:"Base URL of the intake that what is fetched from Stripe and Shopify is posted to. Default: listen.intake of the configuration."`
	DryRun    bool          `help:"List what would be asked for, and ask for nothing."`

	settled map[string]bool // of a process that asks again and again: what the intake has taken, or was refused for good, which is not asked for any more; nil: by hand
	rests   time.Time       // of such a process: since when it has the source as it is
	secret  schemas.Secret  // in the place of TokenFile
	role    config.Role     // that reads the source's topics; empty: that of commands
}

// missed is a delivery that has failed at the provider, or is still to come from it.
type missed struct {
	ID       string    `json:"id"` // the provider's: GitHub's X-GitHub-Delivery, Stripe's event, Shopify's resource
	Type     string    `json:"type"`
	At       time.Time `json:"at"`       // of its first attempt that the log shows, of the event, or of the resource's version
	Attempts int       `json:"attempts"` // that the log shows; 0: it does not show them
	Failed   string    `json:"failed"`   // how the last one did, in the provider's words
	Result   string    `json:"result"`   // planned, asked, left, or what the intake has made of it; see package delivery
	Answer   string    `json:"answer"`   // why it was refused, or the id of the event

	last    int64     // GitHub's number of the last attempt
	lastAt  time.Time // of that
	refused bool      // which was answered with 4xx: the same may be so for good
	arrived bool      // an attempt has succeeded
	body    []byte    // of Stripe's event, or Shopify's resource
}

// What becomes of a missed delivery, beside the results of package delivery.
const (
	missedPlanned = "planned" // a dry run
	missedAsked   = "asked"   // the provider sends it again
	missedLeft    = "left"    // the command has ended before
)

// deliveryLog is what a provider knows of its deliveries.
type deliveryLog interface {
	// missed returns what did not come since then, in any order. more says that the log goes on beyond the pages that a process reads which asks again and again.
	missed(e *env, since time.Time) (list []*missed, more bool, err error)
	// bring has one sent again, or sends it, and says in it what came of that. An error is one that the next would meet, too.
	bring(e *env, m *missed) error
}

// pages is how many pages of a log are read.
func (c *sourcesReconcileCmd) pages() int {
	if c.settled == nil {
		return math.MaxInt // --since ends it
	}
	return maxLogPages
}

// setting names a flag as who asks has it: in the process that asks again and again it is a key of the file.
func (c *sourcesReconcileCmd) setting(flag string) string {
	if c.settled == nil {
		return "--" + flag
	}
	return "reconcile." + strings.NewReplacer("-file", "", "-", "_").Replace(flag)
}

// next says when it is asked again.
func (c *sourcesReconcileCmd) next() string {
	if c.settled == nil {
		return "run the same command again"
	}
	return "the next interval asks again"
}

// Run looks into the provider's log, and has what did not come sent again, the oldest first.
func (c *sourcesReconcileCmd) Run(e *env) error {
	if c.Since <= 0 {
		return usageError("--since must be above zero, such as 24h")
	}
	to, err := c.source(e, c.Source)
	if err != nil {
		return err
	}
	list, _, stopped, err := c.bring(e, to)
	if err != nil {
		return byHand(err)
	}
	if err := errors.Join(showMissed(e, list), stopped); err != nil {
		return err
	}
	refused := countMissed(list, delivery.Refused)
	switch {
	case c.DryRun:
		fmt.Fprintln(e.Stderr, "dry run: nothing was asked for")
	case countMissed(list, missedAsked) > 0:
		fmt.Fprintln(e.Stderr, "the provider sends them again now; the same command a minute later lists what has failed once more")
	}
	if refused > 0 {
		return &exitError{code: exitFailed, err: fmt.Errorf("%d of %d cannot be had again; their lines say why", refused, len(list))}
	}
	return nil
}

func countMissed(list []*missed, result string) (n int) {
	for _, m := range list {
		if m.Result == result {
			n++
		}
	}
	return n
}

// bring looks into the log, and has what did not come sent again. stopped is why the rest was left.
func (c *sourcesReconcileCmd) bring(e *env, to *namedSource) (list []*missed, more bool, stopped, err error) {
	log, stop, err := c.log(e, to)
	if err != nil {
		return nil, false, nil, err
	}
	defer stop()
	if list, more, err = log.missed(e, time.Now().Add(-c.Since)); err != nil {
		return nil, false, nil, err
	}
	key := func(m *missed) string { return m.ID + " " + m.At.String() }
	listed := map[string]bool{}
	list = slices.DeleteFunc(list, func(m *missed) bool {
		listed[key(m)] = true
		return c.settled[key(m)]
	})
	maps.DeleteFunc(c.settled, func(k string, _ bool) bool { return !listed[k] }) // so that it grows no longer than the log
	slices.SortStableFunc(list, func(a, b *missed) int { return a.At.Compare(b.At) })
	for _, m := range list {
		switch {
		case c.DryRun:
			m.Result = missedPlanned
		case stopped != nil:
			m.Result = missedLeft
		default:
			if stopped = log.bring(e, m); stopped != nil && m.Result == "" {
				m.Result = missedLeft
			}
			if c.settled != nil && stopped == nil && slices.Contains([]string{delivery.Event, delivery.Quarantined, delivery.Refused}, m.Result) {
				c.settled[key(m)] = true
			}
		}
	}
	return list, more, stopped, nil
}

func showMissed(e *env, list []*missed) error {
	type item = *missed
	return printList(e, api.Page[item]{Items: list}, func(m item) string { return m.ID },
		column[item]{name: "at", at: func(m item) *time.Time { return &m.At }},
		column[item]{name: "type", value: func(m item) string { return m.Type }},
		column[item]{name: "attempts", wide: true, value: func(m item) string { return strconv.Itoa(m.Attempts) }},
		column[item]{name: "failed", value: func(m item) string { return m.Failed }},
		column[item]{name: "result", value: func(m item) string { return m.Result }},
		column[item]{name: "id", whole: true, value: func(m item) string { return m.ID }},
		column[item]{name: "answer", below: true, value: func(m item) string { return m.Answer }})
}

// log returns the log of the source's provider, and what closes its connections.
func (c *sourcesReconcileCmd) log(e *env, to *namedSource) (deliveryLog, func(), error) {
	token, err := c.token()
	if err != nil {
		return nil, nil, err
	}
	header := http.Header{"Authorization": {"Bearer " + token.Reveal()}}
	var base string
	preset := to.file.Teams[to.id.Team].Sources[to.id.Name].Preset
	var hook []string
	var shop *shopifyLog
	switch preset {
	case "github":
		if hook, err = c.githubHook(); err != nil {
			return nil, nil, err
		}
		base = "https://api.github.com"
		header.Set("Accept", "application/vnd.github+json")
		header.Set("X-GitHub-Api-Version", "2022-11-28")
	case "stripe":
		if most := config.RedeliveryHorizon; c.Since > most.Std() {
			return nil, nil, usageError("%s is %s at most: an event that ran before that may be remembered no more, and would run again", c.setting("since"), most)
		}
		if c.Hook == "" {
			fmt.Fprintln(e.Stderr, "these are the events of all endpoints of the account; --hook we_... keeps to the types that one is subscribed to")
		}
		base = "https://api.stripe.com"
	case "shopify":
		if shop, err = c.shopify(e, to); err != nil {
			return nil, nil, err
		}
		base = "https://" + shop.shop
		header = http.Header{"X-Shopify-Access-Token": {token.Reveal()}}
	default:
		return nil, nil, usageError("%s has preset %s: github, stripe and shopify can be asked", names.Source.Print(to.id), preset)
	}
	networks, err := c.networks()
	if err != nil {
		return nil, nil, err
	}
	client, err := sinkapi.New(sinkapi.Config{Kind: preset, BaseURL: cmp.Or(c.APIURL, base), Headers: header, Secrets: []schemas.Secret{token},
		AllowNetworks: networks, Version: build.Read().Version,
		MaxValue: int(2*to.MaxBody) + 1<<20, Timeout: longestPage}) // lists are written wider; what is above max_body the intake refuses, alone
	if err != nil {
		return nil, nil, usageError("%s: %w", c.setting("api-url"), err)
	}
	stop := func() { _ = client.Close(e.ctx) }
	asked := &askedAPI{client: client, title: preset, cmd: c}
	switch preset {
	case "github":
		return &githubLog{askedAPI: asked, hook: hook, limit: newAskLimit(), rests: c.rests}, stop, nil
	case "shopify":
		shop.askedAPI = asked
		return shop, stop, nil
	}
	return &stripeLog{askedAPI: asked, to: to}, stop, nil
}

// kafka returns the options of the clients that read the source's topics.
func (c *sourcesReconcileCmd) kafka(e *env, to *namedSource) ([]kgo.Opt, error) {
	if c.role != "" {
		return app.KafkaOptions(to.file, c.role), nil
	}
	file, err := config.Load(c.options(e, config.RoleTopics))
	if err != nil {
		return nil, err
	}
	return app.KafkaOptions(file, config.RoleTopics), nil
}

const clockSlack = 10 * time.Minute // how far the clocks of providers and brokers may be apart

// quarantined calls each for what came to the source's quarantine since then: what was authentic, and what was refused. whole is as of [producer.ReadSince].
func (s *namedSource) quarantined(ctx context.Context, since time.Time, kafka []kgo.Opt, each func(producer.Item)) (whole bool, err error) {
	return producer.ReadSince(ctx, topics.Quarantine(s.id.Team, s.id.Name), since.Add(-clockSlack), func(r *kgo.Record) { each(producer.Quarantined(r)) }, kafka...)
}

func (c *sourcesReconcileCmd) token() (schemas.Secret, error) {
	if c.TokenFile == "" {
		return c.secret, nil
	}
	text, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return schemas.Secret{}, fmt.Errorf("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return schemas.Secret{}, usageError("--token-file: %s must have one token, and nothing else", c.TokenFile)
	}
	return schemas.NewSecret(token), nil
}

// networks are the private networks that may be reached at an address that the user has named; the token goes in plain text to this machine alone.
func (c *sourcesReconcileCmd) networks() ([]netip.Prefix, error) {
	u, err := url.Parse(c.APIURL)
	switch {
	case c.APIURL == "":
		return nil, nil
	case err == nil && u.Scheme == "https":
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}, nil
	}
	if err == nil && u.Scheme == "http" {
		if at, err := netip.ParseAddr(u.Hostname()); err == nil && at.IsLoopback() {
			return []netip.Prefix{netip.PrefixFrom(at, at.BitLen())}, nil
		}
	}
	return nil, usageError("%s must be https://HOST/PATH: the token goes to it (http is for 127.0.0.1 alone)", c.setting("api-url"))
}
