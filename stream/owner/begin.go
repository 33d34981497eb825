package owner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/internal/retry"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Topics are what [Owner.Start] found out about the subscription's topics.
type Topics struct {
	broker *broker
	ids    map[string]ledger.TopicID  // when the clients were made, which hold on to them
	begin  map[ledger.Partition]int64 // where the subscription begins; 0 of a partition that is not in it
}

// Start stores where the subscription begins, before its group is joined. It asks the brokers through cl, which must have the
// options of [reader.ClientOptions]. It tries again until it has, or ctx is done: then it returns false.
func (o *Owner) Start(ctx context.Context, cl *kgo.Client) (Topics, bool) {
	b := newBroker(cl, o.cfg.Group)
	var wait retry.Backoff
	for ctx.Err() == nil {
		tctx, cancel := context.WithTimeout(ctx, claimTimeout)
		topics, err := o.begin(tctx, b)
		cancel()
		if err == nil {
			o.status.setStarting(nil)
			return topics, true
		}
		if ctx.Err() == nil {
			o.status.setStarting(err)
			o.cfg.Logger.Warn("not started yet; trying again", "error", err)
			wait.Sleep(ctx)
		}
	}
	return Topics{}, false
}

// begin resolves the begin of a new subscription to explicit offsets, once: the first process that stores them wins, and later
// starts read what was stored. A topic that is added later begins as configured if it has records from before the subscription
// began, otherwise at its log's start.
func (o *Owner) begin(ctx context.Context, b *broker) (Topics, error) {
	k := Topics{broker: b, ids: map[string]ledger.TopicID{}, begin: map[ledger.Partition]int64{}}
	for _, name := range o.cfg.Topics {
		t, err := b.Topic(ctx, name)
		if errors.Is(err, kerr.UnknownTopicOrPartition) {
			return k, schemas.Errorf(schemas.NotFound, "start subscription "+o.cfg.Group,
				"topic %s does not exist: run `forebay topics apply`", name)
		} else if err != nil {
			return k, err
		}
		k.ids[name] = t.ID
	}
	began, err := o.cfg.Ledger.Began(ctx)
	if err != nil {
		return k, fmt.Errorf("read the begin of %s: %w", o.cfg.Group, err)
	}
	if !began.IsZero() {
		if k.begin, err = o.cfg.Ledger.Begin(ctx, nil); err != nil {
			return k, fmt.Errorf("read the begin of %s: %w", o.cfg.Group, err)
		}
	}
	offsets, err := o.missingBegins(ctx, b, k.begin, began)
	if err != nil || (len(offsets) == 0 && !began.IsZero()) {
		return k, err
	}
	if k.begin, err = o.cfg.Ledger.Begin(ctx, offsets); err != nil {
		return k, fmt.Errorf("store the begin of %s: %w", o.cfg.Group, err)
	}
	o.cfg.Logger.Info("begins", "at", o.cfg.Begin.String(), "partitions", len(offsets))
	return k, nil
}

// beginSkew is how far the clocks of the database, by which it is known when a subscription began, and of the brokers may differ.
const beginSkew = 5 * time.Minute

// missingBegins resolves the begin of the topics that have none stored, to an offset for each partition. A topic that was created again
// has a begin stored under its name, and begins at 0 once that is accepted.
func (o *Owner) missingBegins(ctx context.Context, b *broker, stored map[ledger.Partition]int64, began time.Time) (map[ledger.Partition]int64, error) {
	known := map[string]bool{}
	for p := range stored {
		known[p.Topic] = true
	}
	offsets := map[ledger.Partition]int64{}
	for _, name := range o.cfg.Topics {
		if known[name] {
			continue
		}
		begin, err := o.beginOf(ctx, b, name, began)
		if err != nil {
			return nil, err
		}
		resolved, err := b.resolve(ctx, name, begin)
		if err != nil {
			return nil, err
		}
		maps.Copy(offsets, resolved)
	}
	return offsets, nil
}

// beginOf returns where a topic begins that has no begin stored: as configured, unless the subscription has begun and the topic has no
// record from before that. With begin: now, an added topic must not bring a week of history. One without such records begins at its
// log's start: the subscription has missed nothing of what is deleted already. Where that was all, the log's start is its end.
func (o *Owner) beginOf(ctx context.Context, b *broker, name string, began time.Time) (Begin, error) {
	if began.IsZero() {
		return o.cfg.Begin, nil
	}
	older, err := b.hasBefore(ctx, name, began.Add(-beginSkew))
	if err != nil || older {
		return o.cfg.Begin, err
	}
	return Begin{All: true}, nil
}
