package schemas

import (
	"fmt"
	"unicode/utf8"
)

// Limits of an event's texts, in bytes. They keep every text indexable and every record header small; a body has the
// limit of its source.
const (
	MaxID          = 512
	MaxSource      = 1024
	MaxType        = 512
	MaxEntity      = 1024
	MaxClock       = 64
	MaxTitle       = 512
	MaxVersionText = 64
	MaxText        = 2048     // content type, data schema, traceparent, tracestate
	MaxKept        = 32 << 10 // original headers and extensions, names and values together
	// MaxSub and MaxEpoch are the largest values that fit the fixed widths of [Version.Sortable].
	MaxSub   = 99_999
	MaxEpoch = 999_999
)

// FieldError says what is wrong with one field of an event. Reason is one of missing_field, too_long,
// control_character, wrong_type, bad_version: the reasons of the quarantine topic. No text of it holds the value.
type FieldError struct {
	Field, Reason, Detail string
}

func (e *FieldError) Error() string {
	if e.Detail == "" {
		return e.Field + ": " + e.Reason
	}
	return e.Field + ": " + e.Reason + ": " + e.Detail
}

// Validate returns a *FieldError for the first field that may not go on a record. An event that passes is read back equal from its
// record, see schemas/record.
func (e *Event) Validate() error {
	for _, c := range [...]struct {
		field, text string
		max         int
		required    bool
	}{
		{"id", e.ID, MaxID, true},
		{"deliveryid", e.DeliveryID, MaxID, false},
		{"source", e.Source, MaxSource, true},
		{"type", e.Type, MaxType, true},
		{"entity", string(e.Entity), MaxEntity, true},
		{"senderid", e.Sender.ID, MaxID, false},
		{"senderlogin", e.Sender.Login, MaxID, false},
		{"entitytitle", e.Title, MaxTitle, false},
		{"clock", e.Version.Clock, MaxClock, false},
		{"dataschema", e.DataSchema, MaxText, false},
		{"traceparent", e.TraceParent, MaxText, false},
		{"tracestate", e.TraceState, MaxText, false},
	} {
		if c.required && c.text == "" {
			return &FieldError{Field: c.field, Reason: "missing_field"}
		}
		if len(c.text) > c.max {
			return &FieldError{c.field, "too_long", fmt.Sprintf("%d bytes, at most %d", len(c.text), c.max)}
		}
		if detail := textFlaw(c.text, false); detail != "" {
			return &FieldError{c.field, "control_character", detail}
		}
	}
	if len(e.DataContentType) > MaxText {
		return &FieldError{Field: "datacontenttype", Reason: "too_long"}
	}
	// HTTP allows a tab between the parameters of a content type.
	if detail := textFlaw(e.DataContentType, true); detail != "" {
		return &FieldError{"datacontenttype", "control_character", detail}
	}
	return e.validateRest()
}

// validateRest checks times, payload kind, version, headers and extensions.
func (e *Event) validateRest() error {
	if e.Time.IsZero() {
		return &FieldError{Field: "time", Reason: "missing_field"}
	}
	if y := e.Time.UTC().Year(); y < 0 || y > 9999 {
		return &FieldError{"time", "wrong_type", "year outside 0000 to 9999"}
	}
	if y := e.RecordedTime.UTC().Year(); y < 0 || y > 9999 {
		return &FieldError{"recordedtime", "wrong_type", "year outside 0000 to 9999"}
	}
	if k := e.Sender.Kind; k != "" && !k.Valid() {
		return &FieldError{"senderkind", "wrong_type", "neither human nor automation nor own"}
	}
	if t := e.Sender.Trust; t != "" && !t.Valid() {
		return &FieldError{"sendertrust", "wrong_type", "no part that a sender has"}
	}
	if err := e.Chain.validate(); err != nil {
		return err
	}
	if !e.Payload.Valid() {
		return &FieldError{"payloadkind", "wrong_type", "neither snapshot nor delta"}
	}
	if err := e.Version.validate(); err != nil {
		return err
	}
	if e.First != nil && (e.Version.Kind != Sequence || *e.First < 0) {
		return &FieldError{"versionfirst", "bad_version", "only kind sequence has a first value, and it is not negative"}
	}
	kept := 0
	for _, h := range e.Headers {
		kept += len(h.Name) + len(h.Value)
	}
	for name, value := range e.Extensions {
		kept += len(name) + len(value)
		if !IsAttributeName(name) {
			return &FieldError{"extensions", "wrong_type", "a name is not lower-case letters and digits"}
		}
		if detail := textFlaw(value, false); detail != "" {
			return &FieldError{name, "control_character", detail}
		}
	}
	if kept > MaxKept {
		return &FieldError{"headers", "too_long", fmt.Sprintf("%d bytes, at most %d", kept, MaxKept)}
	}
	return nil
}

// validate returns a *FieldError if a version's fields do not fit each other or their limits.
func (v Version) validate() error {
	bad := func(detail string) error { return &FieldError{"version", "bad_version", detail} }
	switch {
	case !v.Kind.Valid():
		return bad("unknown kind")
	case v.Epoch < 0 || v.Epoch > MaxEpoch:
		return bad("epoch outside 0 to 999999")
	case v.Kind == None && v.Epoch != 0:
		return bad("an epoch on kind none")
	case v.Sub < 0 || v.Sub > MaxSub:
		return bad("sub outside 0 to 99999")
	case v.Kind == None && (v.Value != 0 || v.Sub != 0):
		return bad("a value or sub on kind none")
	case v.Text != "" && (v.Kind != Monotonic || v.Value != 0):
		return bad("a text needs kind monotonic and no value")
	case v.Text != "" && !IsVersionText(v.Text):
		return bad("a text is longer than 64 bytes or has other characters than printable ASCII without the space")
	case v.Kind != Timestamp && v.Value < 0:
		return bad("negative value")
	case v.Kind == Timestamp && v.Value < MinTimestamp.UnixNano():
		return bad("time before the first that can be kept")
	}
	return nil
}

// IsAttributeName reports whether s may name a CloudEvents attribute: lower-case letters and digits, and never
// "data".
func IsAttributeName(s string) bool {
	for i := range len(s) {
		c := s[i]
		lower, digit := 'a' <= c && c <= 'z', '0' <= c && c <= '9'
		if !lower && !digit {
			return false
		}
	}
	return s != "" && s != "data"
}

// textFlaw says which character of s a CloudEvents String may not have; "" if there is none. allowTab allows tabs all the same.
func textFlaw(s string, allowTab bool) string {
	for i := range len(s) {
		printable := ' ' <= s[i] && s[i] <= '~'
		if !printable && (s[i] != '\t' || !allowTab) {
			return runeFlaw(s[i:], allowTab)
		}
	}
	return ""
}

// runeFlaw is textFlaw of text that is not all printable ASCII.
func runeFlaw(s string, allowTab bool) string {
	for i, r := range s {
		switch {
		case r == utf8.RuneError: // of bytes that are not UTF-8, or U+FFFD itself, which is allowed
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return "not UTF-8"
			}
		case r == '\t' && allowTab:
			continue
		case r < 0x20, 0x7F <= r && r <= 0x9F:
			return fmt.Sprintf("control character U+%04X", r)
		case 0xFDD0 <= r && r <= 0xFDEF, r&0xFFFE == 0xFFFE:
			return fmt.Sprintf("noncharacter U+%04X", r)
		}
	}
	return ""
}
