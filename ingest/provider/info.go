package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Info describes a preset: `forebay sources presets` and PRESETS.md show nothing else. Values are named as presets name them: "/a|/b" is
// the first that is there, a trailing "?" one that may be missing, "=text" a literal, "text{/a}" the value of /a with text before it.
type Info struct {
	Name string `json:"name"`
	// Title is the provider's own name.
	Title string `json:"title"`
	// Scheme is the verification rule; Verify its parameters, as the preset says them.
	Scheme string        `json:"scheme"`
	Verify verify.Params `json:"verify"`
	// Signed is what the signature covers, as in `verify.signed`.
	Signed string `json:"signed"`
	// Tolerance is how far the signed time may be from our clock. Zero: no time is signed.
	Tolerance Seconds `json:"tolerance_seconds"`
	// MaxBody is in bytes.
	MaxBody int64 `json:"max_body_bytes"`
	// Deadline is how long the provider waits for an answer.
	Deadline Seconds `json:"ack_deadline_seconds"`
	// DeadlineNote says what the provider says of the deadline, where it is not exactly that.
	DeadlineNote string `json:"ack_deadline_note,omitempty"`
	// Takes says which answers the provider takes for a delivery that has arrived, and in brackets where that is written. Empty: not confirmed.
	Takes string `json:"takes,omitempty"`
	// Retries says how the provider delivers again what was not taken; RetryHorizon for how long, of its own accord or asked. Zero: not
	// known.
	Retries      string  `json:"retries"`
	RetryHorizon Seconds `json:"retry_horizon_seconds"`
	// ID says where the dedupe id comes from; DeliveryID where the provider's own id of a delivery is, if that is not signed and so not the
	// event's.
	ID         string `json:"id"`
	DeliveryID string `json:"delivery_id,omitempty"`
	// Repeats are the event types of which two with the same body are one event, because the id is made of the body.
	Repeats []Repeat `json:"repeats,omitempty"`
	// TypeNames says how the values in types are written, where they are not verbatim.
	TypeNames string `json:"type_names,omitempty"`
	// Headers are the original request headers kept on the event.
	Headers []string `json:"headers"`
	// Conversation lists the event types in which somebody says something to others, of which loops are counted.
	Conversation []string `json:"conversation,omitempty"`
	// Chain says that the headers X-Agent-Call-Chain, X-Agent-Call-Depth and X-Agent-Trace-Id are taken in.
	Chain bool `json:"chain,omitempty"`
	// Types lists the event types with a mapping of their own, and Fallback the mapping of all others.
	Types    []TypeInfo `json:"types"`
	Fallback TypeInfo   `json:"fallback"`
}

// Repeat is an event type whose body may be the same in two events.
type Repeat struct {
	// Event is the type without the preset's prefix, and without what stands behind it.
	Event string `json:"event"`
	// Do says how its sender makes them differ; empty: it cannot.
	Do string `json:"do,omitempty"`
}

// TypeInfo describes the mapping of one family of event types.
type TypeInfo struct {
	// Match is the mapping's name: what chooses it, joined by "/". Empty: all event types without a mapping.
	Match string `json:"match,omitempty"`
	// Type is how types are named: values in braces, those that may be missing in brackets.
	Type string `json:"type"`
	// Entity are the values that name what the event is about. If there are none, or none of them is in a delivery, it is the source.
	Entity []string `json:"entity"`
	// Versions are tried in order; the first whose value is there counts. Without one the events go as they arrive.
	Versions []VersionInfo `json:"versions"`
	// Sender says who made it happen, and Title what the entity is called; empty where the provider does not say.
	Sender *SenderInfo `json:"sender,omitempty"`
	Title  string      `json:"title,omitempty"`
	// Snapshots says which events are snapshots; all others are deltas.
	Snapshots *ConditionInfo `json:"snapshots,omitempty"`
	// Deleted says which events end their entity.
	Deleted *ConditionInfo `json:"deleted,omitempty"`
}

// VersionInfo says where a version stands. Versions of one clock compare by epoch, value and rank, in this order.
type VersionInfo struct {
	// Clock names the version line; By is the id of the part of the entity that it is of.
	Clock string              `json:"clock"`
	By    string              `json:"by,omitempty"`
	Kind  schemas.VersionKind `json:"kind"`
	From  string              `json:"from"`
	// Resolution is of timestamps.
	Resolution Seconds `json:"resolution_seconds"`
	Epoch      string  `json:"epoch,omitempty"`
	// Rank is a status, and Ranks its values from the first to the last.
	Rank  string   `json:"rank,omitempty"`
	Ranks []string `json:"ranks,omitempty"`
}

// SenderInfo says where the sender's id and name are, and which senders are programs. A nil Automation: that is not told.
type SenderInfo struct {
	ID         string         `json:"id"`
	Login      string         `json:"login,omitempty"`
	Automation *ConditionInfo `json:"automation,omitempty"`
	// Trust is where the sender's part in the project is, if Author is the sender. Others are their other ids for the source's own, and Mark
	// holds for texts that a sink of ours wrote; both count where the event Made its object, or a program Changed it (nil Made: always).
	Trust   string         `json:"trust,omitempty"`
	Author  string         `json:"author,omitempty"`
	Others  string         `json:"others,omitempty"`
	Mark    *ConditionInfo `json:"mark,omitempty"`
	Made    *ConditionInfo `json:"made,omitempty"`
	Changed *ConditionInfo `json:"changed,omitempty"`
}

// ConditionInfo holds for events whose value is one of Is, ends with Suffix, has a line that begins with Line, or is There at all, and for which
// Unless does not hold.
type ConditionInfo struct {
	From   string         `json:"from"`
	Is     []string       `json:"is,omitempty"`
	Suffix string         `json:"suffix,omitempty"`
	Line   string         `json:"line,omitempty"`
	There  bool           `json:"there,omitempty"`
	Unless *ConditionInfo `json:"unless,omitempty"`
}

// Seconds is a duration that JSON has as a number of seconds.
type Seconds time.Duration

// Std returns the duration as the standard library's type.
func (s Seconds) Std() time.Duration { return time.Duration(s) }

// MarshalJSON writes the number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(s.Std().Seconds()) }

func (p preset) info() Info {
	scheme := p.verify.Scheme
	if scheme == "" {
		scheme = verify.SchemeHMAC
	}
	signed, tolerance := p.verify.Signs()
	i := Info{Name: p.name, Title: p.title, Scheme: scheme, Verify: p.verify, Signed: signed, Tolerance: Seconds(tolerance),
		MaxBody: p.maxBody, Deadline: Seconds(p.deadline), DeadlineNote: p.deadlineNote, Takes: p.takes, Retries: p.retries, RetryHorizon: Seconds(p.retryHorizon),
		ID: p.fallback.id, DeliveryID: p.delivery, Repeats: p.repeats, TypeNames: p.namesText(), Headers: append([]string{}, p.headers...), Conversation: p.conversation(), Chain: p.chain, Types: []TypeInfo{}, Fallback: p.mappingInfo("", p.fallback)}
	switch {
	case len(p.around) > 0:
		outer, _, _ := strings.Cut(p.each, "/*/")
		i.ID = "{" + outer + "/*" + strings.Join(p.around, "}:{"+outer+"/*") + "}/" + i.ID
	case p.fallback.scope != "":
		i.ID = "{" + p.fallback.scope + "}/" + i.ID
	}
	for _, name := range sortedKeys(p.rules) {
		i.Types = append(i.Types, p.mappingInfo(name, p.rules[name]))
	}
	return i
}

func (p preset) mappingInfo(name string, m mapping) TypeInfo {
	if m.typ == nil {
		m.typ = p.fallback.typ
	}
	t := TypeInfo{Match: name, Type: p.prefix + typeText(m.typ), Entity: append([]string{}, m.entity...), Versions: []VersionInfo{},
		Snapshots: m.snapshots.info(), Deleted: m.deleted.info()}
	if m.sender == (sender{}) {
		m.sender = p.fallback.sender
	}
	if m.sender.id != "" {
		s := m.sender
		t.Sender = &SenderInfo{ID: s.id, Login: s.login, Automation: s.automation.info(), Trust: s.trust, Author: s.author, Others: s.others,
			Mark: s.mark.info(), Made: s.made.info(), Changed: s.changed.info()}
	}
	t.Title = cmp.Or(m.title, p.fallback.title)
	for _, c := range m.clocks {
		v := VersionInfo{Clock: c.name, By: c.by, Kind: c.kind, From: c.from, Resolution: Seconds(c.resolution), Epoch: c.epoch}
		if c.rank != nil {
			v.Rank, v.Ranks = c.rank.from, c.rank.order
		}
		t.Versions = append(t.Versions, v)
	}
	return t
}

// namesText says what p.names does to types.
func (p preset) namesText() string {
	if p.names == nil {
		return ""
	}
	text := "in lower case"
	for i := 0; i < len(p.names); i += 2 {
		if p.names[i+1] == "" {
			text += fmt.Sprintf(", without %q", p.names[i])
		} else {
			text += fmt.Sprintf(", %q for %q", p.names[i+1], p.names[i])
		}
	}
	return text
}

func (c *condition) info() *ConditionInfo {
	if c == nil {
		return nil
	}
	return &ConditionInfo{From: c.from, Is: c.is, Suffix: c.suffix, Line: c.line, There: c.there, Unless: c.unless.info()}
}

// conversation lists the types of p.says with their prefix.
func (p preset) conversation() (list []string) {
	for _, said := range p.says {
		list = append(list, p.prefix+said)
	}
	return list
}
