package app

import (
	"github.com/forebay-io/forebay/cmd/internal/topics"
	kafkasink "github.com/forebay-io/forebay/sinks/kafka"
	"github.com/forebay-io/forebay/stream/sink"
)

func newKafka(p sinkParts) (sink.Sink, error) {
	d := p.destination
	params, _, err := p.apiParts(kafkasink.Params())
	if err != nil {
		return nil, err
	}
	return kafkasink.New(kafkasink.Config{
		Client: KafkaOptions(p.file), Topic: d.Topic, Params: params, Unsafe: d.Idempotent != nil && !*d.Idempotent,
		Timeout: d.Timeout.Std(), MaxRecordBytes: int(largestBody(p.file)) + topics.HeaderRoom,
	})
}
