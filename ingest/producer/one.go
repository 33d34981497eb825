package producer

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// ReadOne reads one delivery of a quarantine topic, with its body. opts are the brokers and their credentials, for a client that
// ReadOne opens and closes. Errors are *schemas.Error: NotFound if the topic has no record at that offset (any more), Invalid,
// Unavailable.
func ReadOne(ctx context.Context, topic string, partition int32, offset int64, opts ...kgo.Opt) (*Item, error) {
	op := "read " + topic
	nothing := schemas.Errorf(schemas.NotFound, op, "nothing is at %d@%d; `forebay quarantine list` shows what is kept", partition, offset)
	spans, err := bounds(ctx, topic, opts)
	if err != nil {
		return nil, err
	}
	if s, ok := spans[partition]; !ok || offset < s.from || offset >= s.to {
		return nil, nothing
	}
	client, err := kgo.NewClient(append(slices.Clone(opts), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(offset)}}))...)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "%w", err)
	}
	defer client.Close()
	fetches := client.PollRecords(ctx, 1)
	if ctx.Err() != nil {
		return nil, schemas.Errorf(schemas.Unavailable, op, "%w", context.Cause(ctx))
	}
	if err := fetches.Err(); err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
	}
	for _, r := range fetches.Records() {
		if _, _, mark := parseMark(r); r.Offset == offset && !r.Attrs.IsControl() && !mark {
			item := Quarantined(r)
			return &item, nil
		}
	}
	return nil, nothing // gone by retention meanwhile
}
