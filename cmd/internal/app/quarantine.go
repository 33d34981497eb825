package app

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
)

// quarantine reads the quarantine topics for people: the newest of each.
type quarantine struct{ a *App }

// Quarantined lists the newest deliveries that are kept aside, over all sources of the filter.
func (q *quarantine) Quarantined(ctx context.Context, f api.QuarantineFilter) ([]api.QuarantineItem, error) {
	opts := append(KafkaOptions(q.a.file()),
		kgo.BrokerMaxReadBytes(int32(max(100<<20, 2*(largestBody(q.a.file())+topics.HeaderRoom)))))
	var items []api.QuarantineItem
	known := false
	for _, s := range sourceItems(q.a.file()) {
		if (f.Team != "" && f.Team != s.Team) || (f.Source != "" && f.Source != s.Source) {
			continue
		}
		known = true
		topic := topics.Quarantine(s.Team, s.Source)
		kept, err := producer.List(ctx, producer.Query{Topic: topic, Limit: f.Limit}, opts...)
		if err != nil {
			return nil, err
		}
		for _, k := range kept {
			items = append(items, api.QuarantineItem{Team: s.Team, Source: s.Source, Kind: k.Kind, Reason: k.Reason, Detail: k.Detail,
				Bytes: k.Bytes, Topic: topic, Partition: k.Partition, Offset: k.Offset, ReceivedAt: k.Received.UTC()})
		}
	}
	if !known && (f.Team != "" || f.Source != "") {
		return nil, schemas.Errorf(schemas.NotFound, "", "no source %s is configured", strings.Trim(f.Team+"/"+f.Source, "/"))
	}
	slices.SortStableFunc(items, func(a, b api.QuarantineItem) int {
		return cmp.Or(b.ReceivedAt.Compare(a.ReceivedAt), cmp.Compare(a.Topic, b.Topic), cmp.Compare(b.Offset, a.Offset))
	})
	return items[:min(f.Limit, len(items))], nil
}
