package batch

import (
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forebay-io/forebay/stream/reader"
)

// lag is the metric forebay_stream_lag_seconds: how old the last record is that was decided of a partition which is not read to its end,
// and 0 of one that is. It is computed when it is asked for, so that it grows while nothing is decided. Safe for concurrent use.
type lag struct {
	desc *prometheus.Desc

	mu     sync.Mutex
	behind map[reader.TopicPartition]time.Time // when that record was appended; zero: the partition is read to its end
}

func newLag() *lag {
	return &lag{behind: map[reader.TopicPartition]time.Time{}, desc: prometheus.NewDesc("forebay_stream_lag_seconds",
		"Age of the last decided record of a claimed partition that is not read to its end; 0 if it is.", []string{"topic", "partition"}, nil)}
}

// decided notes how far behind a partition is once a batch of it is decided: not at all if that was read to the log's end, else since its
// last record was appended.
func (l *lag) decided(at reader.TopicPartition, read *reader.Part) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch n := len(read.Records); {
	case read.Next.Offset >= read.End:
		l.behind[at] = time.Time{}
	case n > 0:
		l.behind[at] = read.Records[n-1].AppendTime
	}
}

// forget takes a partition out that is not claimed any more.
func (l *lag) forget(at reader.TopicPartition) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.behind, at)
}

// Describe implements [prometheus.Collector].
func (l *lag) Describe(all chan<- *prometheus.Desc) { all <- l.desc }

// Collect implements [prometheus.Collector]. It sends none under the lock, which batches wait for.
func (l *lag) Collect(all chan<- prometheus.Metric) {
	l.mu.Lock()
	behind := maps.Clone(l.behind)
	l.mu.Unlock()
	for at, since := range behind {
		seconds := 0.0
		if !since.IsZero() {
			seconds = max(0, time.Since(since).Seconds())
		}
		all <- prometheus.MustNewConstMetric(l.desc, prometheus.GaugeValue, seconds, at.Topic, strconv.Itoa(int(at.Number)))
	}
}
