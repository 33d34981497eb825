package record

import "testing"

// TestPartitionOf holds the placement to keys that Kafka's own tests give for murmur2: no release of ours may move a key.
func TestPartitionOf(t *testing.T) {
	t.Parallel()
	for key, hash := range map[string]int32{ // org.apache.kafka.common.utils.UtilsTest.testMurmur2
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
	} {
		for _, n := range []int32{1, 3, 12, 1000} {
			if got, want := PartitionOf([]byte(key), n), (hash&0x7fffffff)%n; got != want {
				t.Errorf("%s of %d: %d, want %d", key, n, got, want)
			}
		}
	}
	if got := PartitionOf([]byte{}, 7); got != (275646681&0x7fffffff)%7 {
		t.Errorf("the empty key is in %d", got)
	}
}
