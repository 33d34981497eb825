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

// This file is the embedded broker's retention. kfake has one of its own with two faults: it also deletes the last segment of a partition,
// which then begins again at offset 0 after a restart, so that every stored position is beyond its end; and it does not run any more
// after a restart. So it is switched off. The trimmer deletes records with DeleteRecords requests instead, and leaves the newest record
// of a partition in place.

// startTrimmer applies retention every cfg.TrimEvery until Close.
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

// trim deletes the records of all topics that are older than the topic's retention, except the newest record of every partition. fallback
// is the retention of topics that set none.
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

// retention returns the topic's retention.ms, or fallback if it sets none. A negative one is for ever, as in Kafka.
func retention(config kadm.ResourceConfig, fallback time.Duration) (time.Duration, error) {
	if config.Err != nil {
		return 0, fmt.Errorf("%s: %w", config.Name, config.Err)
	}
	for _, c := range config.Configs {
		if c.Key != "retention.ms" || c.Value == nil || c.Source != kmsg.ConfigSourceDynamicTopicConfig {
			continue // for a setting that the topic does not set, kfake returns Kafka's default instead of the broker's own value
		}
		ms, err := strconv.ParseInt(*c.Value, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: retention.ms: %w", config.Name, err)
		}
		if ms > int64(1<<63-1)/int64(time.Millisecond) {
			return -1, nil // longer than a Duration can be
		}
		return time.Duration(ms) * time.Millisecond, nil
	}
	return fallback, nil
}

// trimTopic deletes the records of a topic that were appended before a time, except the newest record of every partition.
func trimTopic(ctx context.Context, admin *kadm.Client, topic string, before time.Time) error {
	firstYoung, err := admin.ListOffsetsAfterMilli(ctx, before.UnixMilli(), topic)
	if err == nil {
		err = firstYoung.Error()
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
	firstYoung.Each(func(o kadm.ListedOffset) {
		end, _ := ends.Lookup(topic, o.Partition)
		start, _ := starts.Lookup(topic, o.Partition)
		to := min(o.Offset, end.Offset-1) // if all records are old, o.Offset is the end
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
