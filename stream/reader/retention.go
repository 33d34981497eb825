package reader

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas/record"
)

// retention is for how long a topic's log keeps its records.
type retention struct {
	keep  time.Duration // by time; negative: for ever
	sized bool          // a partition is also cut where it grows beyond a size
}

// maxKeep is a retention in milliseconds: from here on it counts as for ever, since a Duration could not hold it.
const maxKeep = time.Duration(1<<63-1) / time.Millisecond

// retention asks the brokers for the retention of a topic: an operator may have given it another one than the configuration.
func (l *Log) retention(ctx context.Context, topic string) (retention, error) {
	r := retention{keep: -1}
	all, err := l.adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return r, fmt.Errorf("describe topic %s: %w", topic, record.Lacks(l.cl, "DescribeConfigs", "topic "+topic, err))
	}
	got, err := all.On(topic, nil)
	if err == nil {
		err = got.Err
	}
	if err != nil {
		return r, fmt.Errorf("describe topic %s: %w", topic, record.Lacks(l.cl, "DescribeConfigs", "topic "+topic, err))
	}
	for _, c := range got.Configs {
		if c.Key != "retention.ms" && c.Key != "retention.bytes" {
			continue
		}
		n, err := strconv.ParseInt(c.MaybeValue(), 10, 64)
		switch {
		case err != nil:
			return r, fmt.Errorf("describe topic %s: %s is %q", topic, c.Key, c.MaybeValue())
		case c.Key == "retention.bytes":
			r.sized = n >= 0
		case n >= 0 && time.Duration(n) < maxKeep:
			r.keep = time.Duration(n) * time.Millisecond
		}
	}
	return r, nil
}

// Keeps reports whether a topic's settings have all of its records kept for so long.
func (l *Log) Keeps(ctx context.Context, topic string, long time.Duration) (bool, error) {
	r, err := l.retention(ctx, topic)
	return err == nil && !r.sized && (r.keep < 0 || r.keep > long), err
}

// endangered returns the offsets [start, before) of a partition whose payloads a sweep copies: those of records older than half of the
// retention and, if the log is also cut by size, at least the older half of the log. Records below start are deleted already.
func (l *Log) endangered(ctx context.Context, at TopicPartition, r retention, now time.Time) (start, before int64, err error) {
	if start, err = l.Start(ctx, at); err != nil {
		return 0, 0, err
	}
	if r.keep >= 0 {
		if before, err = l.OffsetAfter(ctx, at, now.Add(-r.keep/2)); err != nil {
			return 0, 0, err
		}
	}
	if r.sized {
		end, err := l.End(ctx, at)
		if err != nil {
			return 0, 0, err
		}
		before = max(before, start+(end-start+1)/2)
	}
	return start, before, nil
}
