package cesdk

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	prefix      = "ce_"
	contentType = "content-type"
)

var versions = spec.WithPrefix(prefix)

// Message is a record as a message of the SDK. It only reads the record, and may be read more than once.
type Message struct {
	record   *kgo.Record
	encoding binding.Encoding
	format   format.Format // of a structured record
	version  spec.Version  // of a binary record
	refused  error         // why the encoding is unknown, where there is more to say than that
}

var (
	_ binding.Message               = (*Message)(nil)
	_ binding.MessageMetadataReader = (*Message)(nil)
)

// NewMessage returns r as a message. What its headers say decides the encoding, as the Kafka binding has it: structured where the content
// type is one of CloudEvents, otherwise binary where there is a specversion that the SDK knows. Anything else, a batch included, is of
// unknown encoding, and reading it is an error.
func NewMessage(r *kgo.Record) *Message {
	m := &Message{record: r, encoding: binding.EncodingUnknown}
	ctype, _ := m.header(contentType)
	if format.IsFormat(strings.ToLower(strings.TrimSpace(ctype))) {
		switch f := format.Lookup(ctype); f {
		case nil:
			m.refused = fmt.Errorf("read record: content-type %q is no event format that the SDK knows", ctype)
		case format.JSONBatch:
			m.refused = fmt.Errorf("read record: content-type %q is a batch, and a record holds one event", ctype)
		default:
			m.encoding, m.format = binding.EncodingStructured, f
		}
		return m
	}
	text, _ := m.header(versions.PrefixedSpecVersionName())
	if m.version = versions.Version(text); m.version != nil {
		m.encoding = binding.EncodingBinary
	}
	return m
}

// ReadEncoding returns the record's content mode.
func (m *Message) ReadEncoding() binding.Encoding { return m.encoding }

// ReadStructured hands the value of a structured record to w.
func (m *Message) ReadStructured(ctx context.Context, w binding.StructuredWriter) error {
	switch {
	case m.refused != nil:
		return m.refused
	case m.encoding != binding.EncodingStructured:
		return binding.ErrNotStructured
	}
	return w.SetStructuredEvent(ctx, m.format, bytes.NewReader(m.record.Value))
}

// ReadBinary hands the attributes and the value of a binary record to w. An attribute that is there twice, or null, is an error: two
// readers would see two events in it.
func (m *Message) ReadBinary(_ context.Context, w binding.BinaryWriter) error {
	if m.encoding != binding.EncodingBinary {
		return binding.ErrNotBinary
	}
	seen := make(map[string]bool, len(m.record.Headers))
	for _, h := range m.record.Headers {
		if h.Key != contentType && !strings.HasPrefix(h.Key, prefix) {
			continue
		}
		if seen[h.Key] || h.Value == nil {
			return fmt.Errorf("read record: header %q is there twice or null", h.Key)
		}
		seen[h.Key] = true
		if err := m.setAttribute(w, h.Key, string(h.Value)); err != nil {
			return fmt.Errorf("read record: header %q: %w", h.Key, err)
		}
	}
	if len(m.record.Value) == 0 {
		return nil
	}
	return w.SetData(bytes.NewReader(m.record.Value))
}

// setAttribute hands one header to w.
func (m *Message) setAttribute(w binding.BinaryWriter, name, value string) error {
	if name == contentType {
		return w.SetAttribute(m.version.AttributeFromKind(spec.DataContentType), value)
	}
	if a := m.version.Attribute(name); a != nil {
		return w.SetAttribute(a, value)
	}
	return w.SetExtension(name[len(prefix):], value)
}

// GetAttribute returns an attribute of a binary record and its text, nil where the record lacks it.
func (m *Message) GetAttribute(kind spec.Kind) (spec.Attribute, any) {
	if m.version == nil {
		return nil, nil
	}
	a := m.version.AttributeFromKind(kind)
	if a == nil {
		return nil, nil
	}
	name := a.PrefixedName()
	if kind == spec.DataContentType {
		if text, ok := m.header(contentType); ok {
			return a, text
		}
	}
	if text, ok := m.header(name); ok {
		return a, text
	}
	return a, nil
}

// GetExtension returns the text of an extension of a binary record, nil where the record lacks it.
func (m *Message) GetExtension(name string) any {
	if text, ok := m.header(prefix + name); ok && m.version != nil {
		return text
	}
	return nil
}

// Finish does nothing: a record is settled by the commit of its offset, which is the consumer's.
func (m *Message) Finish(error) error { return nil }

func (m *Message) header(name string) (string, bool) {
	for _, h := range m.record.Headers {
		if h.Key == name {
			return string(h.Value), true
		}
	}
	return "", false
}
