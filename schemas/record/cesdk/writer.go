package cesdk

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/schemas/scan"
)

// WriteRecord writes m to r: in the content mode that m has, binary where it has none (see binding.WithForceStructured). It does not
// finish m.
//
// The key is the event's partitionkey, without one its subject, and without either what r has: Kafka keeps the order of the events of one
// key only. What our readers would refuse is an error here, so that it does not end in a subscription's quarantine: a specversion other
// than 1.0, an event without any of the three keys, a batch. r is of no use after an error.
func WriteRecord(ctx context.Context, m binding.Message, r *kgo.Record, transformers ...binding.Transformer) error {
	w := &MessageWriter{Record: r}
	if _, err := binding.Write(ctx, m, w, w, transformers...); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	produced := *r
	if produced.Timestamp.IsZero() {
		produced.Timestamp = time.Now() // as the client does; it is the time of an event that has none
	}
	if _, err := record.Decode(&produced); err != nil {
		return fmt.Errorf("write record: no subscription could read it: %w", err)
	}
	return nil
}

// MessageWriter writes a message of the SDK to Record, for binding.Write. [WriteRecord] does the same and checks what comes out.
//
// Headers of Record that are none of the binding's stay.
type MessageWriter struct {
	Record *kgo.Record
}

var (
	_ binding.StructuredWriter = (*MessageWriter)(nil)
	_ binding.BinaryWriter     = (*MessageWriter)(nil)
)

// SetStructuredEvent writes an event in structured mode. Of one in JSON the record gets the key: its partitionkey, or else its subject.
func (w *MessageWriter) SetStructuredEvent(_ context.Context, f format.Format, event io.Reader) (err error) {
	if f == format.JSONBatch {
		return fmt.Errorf("%s is a batch, and a record holds one event: write its events one by one", f.MediaType())
	}
	w.clear()
	w.set(contentType, f.MediaType())
	if w.Record.Value, err = io.ReadAll(event); err != nil {
		return err
	}
	if f != format.JSON {
		return nil
	}
	var subject, partitionKey scan.Value
	err = scan.Each(w.Record.Value, func(name string, v scan.Value) error {
		switch name {
		case "subject":
			subject = v
		case "partitionkey":
			partitionKey = v
		}
		return nil
	})
	w.setKey(subject.Content())
	w.setKey(partitionKey.Content())
	return err
}

// Start begins an event in binary mode. One without data gets an empty value: null, as the binding has it, is a deletion for Kafka.
func (w *MessageWriter) Start(context.Context) error {
	w.clear()
	w.Record.Value = []byte{}
	return nil
}

// SetAttribute writes an attribute, or removes it if value is nil.
func (w *MessageWriter) SetAttribute(a spec.Attribute, value any) error {
	if a.Kind() == spec.DataContentType {
		return w.setAny(contentType, value)
	}
	return w.setAny(prefix+a.Name(), value)
}

// SetExtension writes an extension, or removes it if value is nil.
func (w *MessageWriter) SetExtension(name string, value any) error {
	return w.setAny(prefix+name, value)
}

// SetData writes the value.
func (w *MessageWriter) SetData(data io.Reader) (err error) {
	w.Record.Value, err = io.ReadAll(data)
	return err
}

// End sets the key, now that all attributes are known.
func (w *MessageWriter) End(context.Context) error {
	for _, name := range [...]string{prefix + "subject", prefix + "partitionkey"} {
		for _, h := range w.Record.Headers {
			if h.Key == name {
				w.setKey(string(h.Value), true)
			}
		}
	}
	return nil
}

// setKey sets the record's key unless it is absent or empty.
func (w *MessageWriter) setKey(key string, ok bool) {
	if ok && key != "" {
		w.Record.Key = []byte(key)
	}
}

// clear removes what another event has left.
func (w *MessageWriter) clear() {
	w.Record.Headers = slices.DeleteFunc(w.Record.Headers, func(h kgo.RecordHeader) bool {
		return h.Key == contentType || strings.HasPrefix(h.Key, prefix)
	})
}

func (w *MessageWriter) setAny(name string, value any) error {
	if value == nil {
		w.remove(name)
		return nil
	}
	text, err := types.Format(value)
	if err != nil {
		return fmt.Errorf("attribute %s: %w", name, err)
	}
	w.set(name, text)
	return nil
}

func (w *MessageWriter) set(name, text string) {
	w.remove(name)
	w.Record.Headers = append(w.Record.Headers, kgo.RecordHeader{Key: name, Value: []byte(text)})
}

func (w *MessageWriter) remove(name string) {
	w.Record.Headers = slices.DeleteFunc(w.Record.Headers, func(h kgo.RecordHeader) bool { return h.Key == name })
}
