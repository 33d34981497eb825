package record

import "github.com/twmb/franz-go/pkg/kgo"

// PartitionOf is the partition of a topic that records of a key belong in: where Kafka's own producers put them, and
// the intake. key is not nil, partitions at least 1.
func PartitionOf(key []byte, partitions int32) int32 {
	return int32(keyed.Partition(&kgo.Record{Key: key}, int(partitions)))
}

// keyed keeps no state for records that have a key, so that it may be shared.
var keyed = kgo.StickyKeyPartitioner(nil).ForTopic("")
