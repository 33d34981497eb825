package record

import "github.com/twmb/franz-go/pkg/kgo"

// Place returns the partition of a topic that r belongs in by its key: where Kafka's own producers put it, and the intake. The
// key is not nil, partitions at least 1.
func Place(r *kgo.Record, partitions int32) int32 { return int32(keyed.Partition(r, int(partitions))) }

// PartitionOf is Place for a key.
func PartitionOf(key []byte, partitions int32) int32 {
	return Place(&kgo.Record{Key: key}, partitions)
}

// keyed keeps no state for records that have a key, so that it may be shared.
var keyed = kgo.StickyKeyPartitioner(nil).ForTopic("")
