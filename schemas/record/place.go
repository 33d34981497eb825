package record

import "github.com/twmb/franz-go/pkg/kgo"

// Place returns the partition of a topic that r belongs in by its key: Kafka's Java client and the intake put it there. The key must not
// be nil, partitions is at least 1.
func Place(r *kgo.Record, partitions int32) int32 { return int32(keyed.Partition(r, int(partitions))) }

// PartitionOf is Place for a key.
func PartitionOf(key []byte, partitions int32) int32 {
	return Place(&kgo.Record{Key: key}, partitions)
}

// keyed places records by their keys. For these it keeps no state, and is safe for concurrent use.
var keyed = kgo.StickyKeyPartitioner(nil).ForTopic("")
