package provider

import (
	"fmt"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Text describes a mapping in the words of a table.
type Text struct {
	Event, Type, Entity, Version, Clock, Payload, Deleted string
}

// Texts describes the mappings of a preset, that of all types without one last.
func (i Info) Texts() []Text {
	var texts []Text
	for _, t := range append(slices.Clone(i.Types), i.Fallback) {
		texts = append(texts, t.text())
	}
	return texts
}

// SignedText says what the signature covers, and how old it may be.
func (i Info) SignedText(fresh string) string {
	switch {
	case i.Scheme == verify.SchemeAgentKey:
		return "nothing; header Authorization carries the agent's key"
	case i.Scheme == verify.SchemeA2A:
		return "nothing; header A2A-Notification-Token, or a JWT, proves who sends"
	case i.Scheme == verify.SchemeJWT:
		return "nothing of the delivery; header Authorization carries a JWT, which expires"
	case i.Signed == "":
		return "nothing; header " + i.Verify.Header + " carries the token"
	}
	return i.Signed + ", " + fresh
}

// RepeatsText says of which event types two with the same body are one event; empty: of none.
func (i Info) RepeatsText() string {
	var parts []string
	for n, r := range i.Repeats {
		last := n == len(i.Repeats)-1 || i.Repeats[n+1].Do != r.Do
		if r.Do != "" && last {
			r.Event += " (" + r.Do + ")"
		}
		parts = append(parts, r.Event)
	}
	return strings.Join(parts, ", ")
}

// CapturedText says what becomes of a delivery that somebody has captured; empty: that is as the source's keys say.
func (i Info) CapturedText() string {
	switch {
	case i.ID == "":
		return ""
	case i.Scheme == verify.SchemeJWT:
		return "until the token in it expires, whoever has seen one delivery can send any other"
	case i.Signed == "":
		return "the token in it is all that is asked for: whoever has seen one delivery can send any other"
	case i.Tolerance > 0:
		return "sent again, it is a duplicate, and refused once its time is too old"
	}
	return "sent again, it is a duplicate as long as dedupe remembers it, whatever its headers say; then decided again, since no time is signed"
}

// SenderText says where who made it happen is read, of event types that say nothing else; empty: nowhere.
func (i Info) SenderText() string {
	s := i.Fallback.Sender
	if s == nil {
		return ""
	}
	text, _ := valueText(s.ID)
	if login, _ := valueText(s.Login); login != "" {
		text += ", called " + login
	}
	if s.Automation != nil {
		from, _ := valueText(s.Automation.From)
		text += ", automation where " + from + " is " + s.Automation.text()
	}
	return text
}

// ConversationText lists the types in which somebody says something, of which loops are counted; empty: none.
func (i Info) ConversationText() string {
	if len(i.Conversation) == 0 {
		return ""
	}
	return "`" + strings.Join(i.Conversation, "`, `") + "`"
}

// ChainText says where the agents that led to a delivery are named; empty: nowhere.
func (i Info) ChainText() string {
	if !i.Chain {
		return ""
	}
	return fmt.Sprintf("`%s`, `%s`, `%s`: a cycle and what is too deep are dropped", schemas.ChainHeader, schemas.DepthHeader, schemas.TraceIDHeader)
}

// OwnText says which other ids of a sender `own:` may list, and whether our own texts are known by a mark; empty: neither.
func (i Info) OwnText() string {
	var others []string
	mark := false
	for _, t := range append(slices.Clone(i.Types), i.Fallback) {
		if t.Sender == nil {
			continue
		}
		mark = mark || t.Sender.Mark != nil
		for one := range strings.SplitSeq(t.Sender.Others, "|") {
			kind, _, _ := strings.Cut(one, "/{")
			if named := "`" + kind + "/ID`"; kind != "" && !strings.HasPrefix(kind, "/") && !slices.Contains(others, named) {
				others = append(others, named)
			}
		}
	}
	text := strings.Join(others, ", ")
	if mark && text != "" {
		text += "; texts of our sinks that a program sends are known by their mark, with `marked/ID` those of a user, too"
	}
	return text
}

// TitleText is SenderText for what the entity is called.
func (i Info) TitleText() string {
	text, _ := valueText(i.Fallback.Title)
	return text
}

// TypesDiffer reports whether some event types are named by other values than all others.
func (i Info) TypesDiffer() bool {
	return slices.ContainsFunc(i.Types, func(t TypeInfo) bool { return t.Type != i.Fallback.Type })
}

func (t TypeInfo) text() Text {
	text := Text{Event: t.Match, Type: t.Type, Entity: entityText(t.Entity), Version: "none: as they arrive", Clock: "", Payload: "delta"}
	if t.Match == "" {
		text.Event = "(all others)"
	}
	var versions, clocks []string
	for _, v := range t.Versions {
		versions, clocks = append(versions, v.text()), append(clocks, v.clock())
	}
	if len(versions) > 0 {
		text.Version, text.Clock = strings.Join(versions, "; else "), strings.Join(slices.Compact(clocks), "; ")
	}
	if t.Snapshots != nil {
		text.Payload = "snapshot: " + t.Snapshots.text() + "; else delta"
	}
	if t.Deleted != nil {
		text.Deleted = t.Deleted.text()
	}
	return text
}

// typeText shows how the name of a type is made of its parts, such as order.{/action}[.{/kind}]: of the parts "=order", "/action" and
// "/kind?", a literal, a value, and a value that may be missing.
func typeText(parts []string) string {
	var b strings.Builder
	for i, part := range parts {
		dot := "."
		if i == 0 {
			dot = ""
		}
		literal, isLiteral := strings.CutPrefix(part, "=")
		value, optional := strings.CutSuffix(part, "?")
		switch {
		case isLiteral:
			b.WriteString(dot + literal)
		case optional:
			b.WriteString("[" + dot + "{" + value + "}]")
		default:
			b.WriteString(dot + "{" + value + "}")
		}
	}
	return b.String()
}

// entityText says what happens without values, too: the source is the entity.
func entityText(froms []string) string {
	var parts []string
	fallible := true
	for _, from := range froms {
		part, optional := valueText(from)
		if fallible = fallible && optional; optional {
			part = "[" + part + "]"
		}
		parts = append(parts, part)
	}
	switch {
	case len(parts) == 0:
		return "the source"
	case fallible:
		return strings.Join(parts, ", ") + ", else the source"
	}
	return strings.Join(parts, ", ")
}

// valueText writes a value as people read it, and says whether a delivery may lack it.
func valueText(from string) (text string, optional bool) {
	if literal, ok := strings.CutPrefix(from, "="); ok {
		return `"` + literal + `"`, false
	}
	text, optional = strings.CutSuffix(from, "?")
	text = strings.ReplaceAll(text, callerName, "the agent's name")
	return strings.ReplaceAll(text, "|", " else "), optional
}

// text describes in words where in the event the version's parts are read, in the order in which they are compared, and its kind.
func (v VersionInfo) text() string {
	var parts []string
	for _, from := range []string{v.Epoch, v.From, v.Rank} {
		if part, _ := valueText(from); part != "" {
			parts = append(parts, part)
		}
	}
	text := strings.Join(parts, ", ")
	if v.Resolution > 0 {
		return text + " (" + string(v.Kind) + ", " + v.Resolution.Std().String() + ")"
	}
	return text + " (" + string(v.Kind) + ")"
}

func (v VersionInfo) clock() string {
	if v.By == "" {
		return v.Clock
	}
	return v.Clock + ":{" + v.By + "}"
}

func (c ConditionInfo) text() string {
	text := strings.Join(c.Is, ", ")
	if c.Suffix != "" {
		text = "*" + c.Suffix
	}
	if c.There {
		text = "any"
	}
	if c.Unless != nil {
		text += " unless " + c.Unless.From + " is " + c.Unless.text()
	}
	return text
}
