package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	sinkapi "github.com/forebay-io/forebay/sinks/api"
)

// shopifyLog is what a shop has, since Shopify shows no log of deliveries: the resources that changed, of which those are missed whose version
// no event in the source's topic has reached, nor a delivery in quarantine that would be one, which waits for an operator there, a refused one too, once
// the source has its secret. A webhook that comes later for one is another event of an equal version, and would run, too: an
// event's id is made of its bytes. So what Shopify may still repeat by itself is left to it.
// Source: https://shopify.dev/docs/api/admin-rest/usage/pagination, https://shopify.dev/docs/api/admin-rest/latest/resources/order.
type shopifyLog struct {
	*askedAPI
	to            *namedSource
	kafka         []kgo.Opt
	shop, version string
	topics        []string
}

// shopifyLists are the topics whose event can be made of a resource, as they say no more than that it is so now, with their lists in the Admin API.
var shopifyLists = map[string]string{"orders/updated": "orders", "draft_orders/update": "draft_orders", "products/update": "products", "customers/update": "customers"}

// shopifyHost: the token goes to no other than Shopify's.
var shopifyHost = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*\.myshopify\.com$`)

var shopifyVersion = regexp.MustCompile(`^([0-9]{4}-[0-9]{2}|unstable)$`)

// shopify returns what the source's shop has, without its API.
func (c *sourcesReconcileCmd) shopify(e *env, to *namedSource) (*shopifyLog, error) {
	parts := strings.SplitN(c.Hook, "/", 3)
	if len(parts) != 3 || !shopifyHost.MatchString(parts[0]) || !shopifyVersion.MatchString(parts[1]) {
		return nil, usageError("%s %q is not SHOP.myshopify.com/API_VERSION/TOPIC,..., such as acme.myshopify.com/2026-07/orders/updated,products/update", c.setting("hook"), c.Hook)
	}
	s := &shopifyLog{to: to, shop: parts[0], version: parts[1], topics: strings.Split(parts[2], ",")}
	for _, topic := range s.topics {
		if shopifyLists[topic] == "" {
			return nil, usageError("%s: of a resource no event of topic %q can be made; it can of %s", c.setting("hook"), topic, strings.Join(slices.Sorted(maps.Keys(shopifyLists)), ", "))
		}
	}
	if c.Since <= config.ShopifyRepeats() {
		return nil, usageError("%s must be above %s: what changed later may still come from Shopify by itself", c.setting("since"), config.Duration(config.ShopifyRepeats()))
	}
	var err error
	s.kafka, err = c.kafka(e, to)
	return s, err
}

// versionLine is one clock of an entity.
type versionLine struct {
	entity schemas.EntityKey
	clock  string
}

// missed implements deliveryLog.
func (s *shopifyLog) missed(e *env, since time.Time) (list []*missed, more bool, err error) {
	had, err := s.had(e.ctx, since)
	if err != nil {
		return nil, false, err
	}
	until, early := time.Now().Add(-config.ShopifyRepeats()), 0
	found := map[versionLine]*missed{}
	for _, topic := range s.topics {
		beyond, err := s.each(e, topic, since, func(body []byte) error {
			event, err := s.to.Event(&verify.Request{Header: s.header(topic), Body: body}, time.Now())
			if err == nil && event.Version.Kind != schemas.Timestamp {
				err = errors.New("it has no version that is a time")
			}
			if err != nil {
				return fmt.Errorf("a resource of %s: %w", topic, err)
			}
			at, of := time.Unix(0, event.Version.Value).UTC(), versionLine{event.Entity, event.Version.Clock}
			switch known := found[of]; {
			case at.Before(since), event.Version.Value <= had[of], known != nil && !at.After(known.At):
			case at.After(until):
				early++
			default:
				found[of] = &missed{ID: string(event.Entity), Type: topic, At: at, Failed: "not in the topic", body: body}
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		more = more || beyond
	}
	if early > 0 {
		fmt.Fprintf(e.Stderr, "%d that changed within %s did not come yet, and are left to Shopify, which repeats a delivery for so long\n", early, config.Duration(config.ShopifyRepeats()))
	}
	return slices.Collect(maps.Values(found)), more, nil
}

// had returns the newest version of each line that has come to the source's topic since then, or to quarantine and was authentic. After a rekey, or
// where the source was renamed, it came to a topic of the team that no source has now: an order is one and the same in all of them.
func (s *shopifyLog) had(ctx context.Context, since time.Time) (map[versionLine]int64, error) {
	had := map[versionLine]int64{}
	add := func(event *schemas.Event, err error) {
		if err == nil && event.Version.Kind == schemas.Timestamp {
			of := versionLine{event.Entity, event.Version.Clock}
			had[of] = max(had[of], event.Version.Value)
		}
	}
	topic := s.to.file.Teams[s.to.id.Team].Sources[s.to.id.Name].Topic
	whole, err := producer.ReadSince(ctx, topic, since.Add(-clockSlack), func(r *kgo.Record) { add(record.Decode(r)) }, s.kafka...)
	if err != nil {
		return nil, err
	}
	before, err := s.topicsBefore(ctx)
	for _, topic := range before {
		if err == nil {
			_, err = producer.ReadSince(ctx, topic, since.Add(-clockSlack), func(r *kgo.Record) { add(record.Decode(r)) }, s.kafka...)
		}
	}
	if err != nil {
		return nil, err
	}
	wholeToo, err := s.to.quarantined(ctx, since, s.kafka, func(kept producer.Item) {
		r := kept.Request()
		if kept.Kind == ingest.KindUnusable || kept.Kind == ingest.KindRefused && (kept.WasAuthentic() || s.to.Verifier.Verify(r, kept.Received) == nil) {
			add(s.to.Event(r, kept.Received)) // a forged one keeps nothing back
		}
	})
	if err == nil && !(whole && wholeToo) {
		err = schemas.Errorf(schemas.Invalid, "read "+topic, "it or its quarantine does not keep what came since %s", since.UTC().Format(time.RFC3339))
	}
	return had, err
}

// topicsBefore returns the topics of the team's events that no source of the file has.
func (s *shopifyLog) topicsBefore(ctx context.Context) (list []string, err error) {
	client, err := kgo.NewClient(s.kafka...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	strangers, err := topics.Strangers(ctx, kadm.NewClient(client), s.to.file, topics.Wanted(s.to.file, s.to.file.MaxBody))
	for _, stranger := range strangers {
		if strings.HasPrefix(stranger.Topic, "events."+s.to.id.Team+".") {
			list = append(list, stranger.Topic)
		}
	}
	return list, err
}

// each calls visit for the resources of a topic that changed since then, in any order, some perhaps twice.
func (s *shopifyLog) each(e *env, topic string, since time.Time, visit func(body []byte) error) (more bool, err error) {
	name := shopifyLists[topic]
	query := url.Values{"updated_at_min": {since.UTC().Format(time.RFC3339)}, "limit": {strconv.Itoa(logPage)}}
	if topic != "products/update" && topic != "customers/update" {
		query.Set("status", "any")
	}
	for page := 0; page < s.cmd.pages(); page++ {
		answer, err := s.call(e, sinkapi.Call{Method: http.MethodGet, Path: []string{"admin", "api", s.version, name + ".json"}, Query: query, Read: func(l *sinkapi.List) error {
			return l.Object(func(key string) error {
				if key != name {
					return l.Skip()
				}
				return l.Each(func() error {
					var body json.RawMessage
					if err := l.Decode(&body); err != nil {
						return err
					}
					return visit(body)
				})
			})
		}})
		if err != nil {
			return false, err
		}
		next := nextCursor(answer.Header, "page_info")
		if next == "" {
			return false, nil
		}
		if next == query.Get("page_info") {
			return false, schemas.Errorf(schemas.Unavailable, "ask shopify", "it gives the same page again, and says that there are more: %s", s.cmd.next())
		}
		query = url.Values{"page_info": {next}, "limit": {strconv.Itoa(logPage)}} // which takes no filter beside it
	}
	return true, nil
}

// header are the headers of a resource's webhook.
func (s *shopifyLog) header(topic string) http.Header {
	return http.Header{"Content-Type": {"application/json"}, "X-Shopify-Topic": {topic}, "X-Shopify-Shop-Domain": {s.shop}, "X-Shopify-Api-Version": {s.version}}
}

// bring implements deliveryLog.
func (s *shopifyLog) bring(e *env, m *missed) error {
	return s.cmd.post(e, s.to, m, s.header(m.Type), m.body)
}
