package stream

import (
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/deadletter"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

// The config of each part, from the subscription's.

func (c Config) owner() owner.Config {
	return owner.Config{
		Group: c.Group, Generation: c.Generation, Topics: c.Topics, Client: c.Client, InstanceID: c.InstanceID, Begin: c.Begin,
		Ledger: c.Ledger, Backfills: c.Backfills, Logger: c.Logger, Registerer: c.Registerer,
		SessionTimeout: c.SessionTimeout, HeartbeatInterval: c.HeartbeatInterval, RebalanceTimeout: c.RebalanceTimeout,
		DrainTimeout: c.DrainTimeout, StopLook: c.StopLook, MirrorInterval: c.MirrorInterval,
	}
}

func (c Config) reader(onError func(error)) reader.Config {
	return reader.Config{
		Client: c.Client, Filter: c.Filter, Select: c.Select, BatchRecords: c.BatchRecords, BatchBytes: c.BatchBytes, MaxRecordBytes: c.MaxRecordBytes,
		OnError: onError,
	}
}

func (c Config) batch(r *reader.Reader, log *reader.Log, lanes Lanes, ms *batch.Metrics) batch.Config {
	return batch.Config{
		Group: c.Group, Topics: c.Topics, Ledger: c.Ledger, Lanes: lanes, Reader: r, Log: log, Backfills: c.Backfills, Metrics: ms, Tracer: c.Tracer, Logger: c.Logger,
		BatchRecords: c.BatchRecords, BatchBytes: c.BatchBytes, BatchWait: c.BatchWait, BatchPace: c.BatchPace, GapSweep: c.GapSweep, IdleSweep: c.IdleSweep,
		UnreadAfter: c.UnreadAfter, TopicLook: c.TopicLook, CommandSweep: c.CommandSweep,
	}
}

func (c Config) copier(log *reader.Log, ms *reader.Metrics) reader.CopierConfig {
	return reader.CopierConfig{
		Ledger: c.Ledger, Payloads: c.Payloads, Log: log, Retention: c.Retention, Metrics: ms, Logger: c.Logger,
	}
}

func (c Config) exporter(ms *deadletter.Metrics) deadletter.Config {
	return deadletter.Config{
		Subscription: c.Group, Ledger: c.Ledger, Payloads: c.Payloads, Client: c.Client,
		MaxRecordBytes: c.MaxRecordBytes, Sweep: c.ExportSweep, Metrics: ms, Logger: c.Logger,
	}
}
