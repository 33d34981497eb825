package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// growthSizes are how many deliveries the scenario sends: first, which is not counted, at full load, and at trickleRate.
type growthSizes struct {
	load                 e2eSizes
	first, full, trickle int64
}

var growthScale = growthSizes{load: e2eScale, first: 20_000, full: 100_000, trickle: 3000}

// run reports by how much log, WAL and tables grow with a delivery to one completed action: at full load, where many share a batch, and at a low
// rate, where each has one of its own.
func (sizes growthSizes) run(ctx context.Context, o Options, r *Report) error {
	load := sizes.load
	pg, stop, err := o.servers(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	w, err := o.startStack(ctx, pg, "growth", load.partitions, e2eConfig, forebayRoles...)
	if err != nil {
		return err
	}
	defer w.close()
	b := &e2eBench{Options: o, e2eSizes: load, ours: w.pipeline("ours", load.conns, []share{{kind: 0, weight: 1, entities: load.entities}})}
	send := func(n int64) error {
		from := b.ours.senders.sent.Load()
		return b.atFullLoad(ctx, &b.ours, func(ctx context.Context, _ *atomic.Int64) error {
			for b.ours.senders.sent.Load() < from+n {
				if err := waitUntil(ctx, time.Now().Add(20*time.Millisecond)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := send(sizes.first); err != nil {
		return err
	}
	for _, part := range []struct {
		name     string
		n        int64
		interval time.Duration
	}{{"growth/", sizes.full, 0}, {"growth/trickle_", sizes.trickle, time.Second / trickleRate}} {
		o.logf("growth: %d deliveries", part.n)
		before, err := w.stored(ctx, o.Kafka)
		if err != nil {
			return err
		}
		from := b.ours.senders.sent.Load()
		b.ours.senders.interval = part.interval
		if err := send(part.n); err != nil {
			return err
		}
		after, err := w.stored(ctx, o.Kafka)
		if err != nil {
			return err
		}
		n := b.ours.senders.sent.Load() - from
		r.cost(part.name+"log", "bytes", float64(after.log-before.log), n)
		r.cost(part.name+"wal", "bytes", float64(after.wal-before.wal), n)
		r.cost(part.name+"tables", "bytes", float64(after.tables-before.tables), n)
	}
	r.Settings["growth"] = fmt.Sprintf("GitHub preset, bodies of %d bytes, lz4, one replica, one action each that ends by its first attempt, %d entities; "+
		"%d deliveries as fast as they come through, and %d at %d/s", deliveryBody, load.conns*load.entities, sizes.full, sizes.trickle, trickleRate)
	return nil
}

// stored is how many bytes the stores have: the topic's log, in one replica; WAL since the server's beginning; the database's tables and indexes.
type stored struct{ log, wal, tables int64 }

func (w *stack) stored(ctx context.Context, brokers []string) (s stored, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return s, err
	}
	defer cl.Close()
	var set kadm.TopicsSet
	adm := kadm.NewClient(cl)
	topics, err := adm.ListTopics(ctx, "events."+w.team+"."+stackSource)
	if err != nil {
		return s, err
	}
	topics.EachPartition(func(p kadm.PartitionDetail) { set.Add(p.Topic, p.Partition) })
	dirs, err := adm.DescribeAllLogDirs(ctx, set)
	if err != nil {
		return s, err
	}
	dirs.Each(func(d kadm.DescribedLogDir) { s.log += d.Size() })
	conn, err := pgx.Connect(ctx, w.pg.url)
	if err != nil {
		return s, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if s.wal, err = walBytes(ctx, conn); err != nil {
		return s, err
	}
	err = conn.QueryRow(ctx, `SELECT pg_database_size(current_database())`).Scan(&s.tables)
	return s, err
}
