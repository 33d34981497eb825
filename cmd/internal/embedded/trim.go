package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The broker's retention is ours, because kfake's own has two faults that would hurt here: it deletes the last segment
// too, after which a restart begins the partition at offset 0 again and every stored position lies beyond its end; and
// it is not switched on again after a restart. So kfake's never runs, and trimming deletes records through the
// protocol and always leaves the newest one in place.

// startTrimmer applies retention now and then until Close.
func (b *Broker) startTrimmer(cfg BrokerConfig) {
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	b.trimmer.Go(func() {
		tick := time.NewTicker(cfg.TrimEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				if err := trim(ctx, b.addr, cfg.Retention, now); err != nil && ctx.Err() == nil {
					cfg.Logger.Log(ctx, slog.LevelWarn, "apply retention on the embedded broker", "error", err)
				}
			}
		}
	})
}

// trim deletes what is older than its topic's retention, except the newest record of every partition.
func trim(ctx context.Context, addr string, fallback time.Duration, now time.Time) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)

	topics, err := admin.ListTopics(ctx)
	if err != nil {
		return err
	}
	if len(topics) == 0 {
		return nil
	}
	configs, err := admin.DescribeTopicConfigs(ctx, topics.Names()...)
	if err != nil {
		return err
	}
	for _, config := range configs {
		keep, err := retention(config, fallback)
		if err != nil {
			return err
		}
		if keep < 0 {
			continue // kept for ever
		}
		if err := trimTopic(ctx, admin, config.Name, now.Add(-keep)); err != nil {
			return fmt.Errorf("%s: %w", config.Name, err)
		}
	}
	return nil
}

// retention returns the topic's retention.ms; negative means for ever, as in Kafka.
func retention(config kadm.ResourceConfig, fallback time.Duration) (time.Duration, error) {
	if config.Err != nil {
		return 0, fmt.Errorf("%s: %w", config.Name, config.Err)
	}
	for _, c := range config.Configs {
		if c.Key != "retention.ms" || c.Value == nil || c.Source != kmsg.ConfigSourceDynamicTopicConfig {
			continue // kfake answers Kafka's default for what is not the topic's own, not the broker's setting
		}
		ms, err := strconv.ParseInt(*c.Value, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: retention.ms: %w", config.Name, err)
		}
		if ms > int64(1<<63-1)/int64(time.Millisecond) {
			return -1, nil // longer than a Duration can say
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	return fallback, nil
}

func trimTopic(ctx context.Context, admin *kadm.Client, topic string, before time.Time) error {
	young, err := admin.ListOffsetsAfterMilli(ctx, before.UnixMilli(), topic)
	if err == nil {
		err = young.Error()
	}
	if err != nil {
		return err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return err
	}
	cut := kadm.Offsets{}
	young.Each(func(o kadm.ListedOffset) {
		end, _ := ends.Lookup(topic, o.Partition)
		start, _ := starts.Lookup(topic, o.Partition)
		to := min(o.Offset, end.Offset-1) // all are old: ListOffsetsAfterMilli answers the end
		if to > start.Offset {
			cut.Add(kadm.Offset{Topic: topic, Partition: o.Partition, At: to, LeaderEpoch: -1})
		}
	})
	if len(cut) == 0 {
		return nil
	}
	deleted, err := admin.DeleteRecords(ctx, cut)
	if err != nil {
		return err
	}
	return deleted.Error()
}
