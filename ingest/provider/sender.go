package provider

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// Who is one of us. An id of `own:` is the provider's word, and nobody else can have it. A mark in a text is not: whoever reads our comment
// can paste it into another one. So a mark says nothing of a person, or a stranger could have a person's command dropped by quoting us, and a
// person their own; it counts for a program, which the provider tells from people, and for a sender whom `own:` names as marked/ID: a person
// whose token our sinks use, of whom the texts with a mark are ours and the others theirs.

// markedPrefix stands in `own:` before the id of a sender who is one of us where the text has our mark.
const markedPrefix = "marked/"

// maxOwn is how many ids `own:` may have.
const maxOwn = 100

// validateOwn refuses ids that no sender can have.
func validateOwn(own []string) error {
	if len(own) > maxOwn {
		return &KeyError{"own", fmt.Errorf("has %d ids: %d are the most", len(own), maxOwn)}
	}
	for i, id := range own {
		if id == "" || id == markedPrefix || strings.TrimSpace(id) != id || checkText("", "", id, schemas.MaxID) != nil {
			return &KeyError{fmt.Sprintf("own[%d]", i), fmt.Errorf("is no id: use the provider's own id of a sender, such as 21031067, app/1234 or bot/B012AB3CD, or %sID", markedPrefix)}
		}
	}
	return nil
}

// parts are GitHub's words for what a user is to a repository.
var parts = map[string]schemas.Trust{
	"OWNER": schemas.Owner, "MEMBER": schemas.Member, "COLLABORATOR": schemas.Collaborator, "CONTRIBUTOR": schemas.Contributor,
	"FIRST_TIME_CONTRIBUTOR": schemas.FirstTime, "FIRST_TIMER": schemas.FirstTime, "NONE": schemas.NoPart, "MANNEQUIN": schemas.NoPart,
}

// trust returns what the provider says of the sender's part; nothing where it says that of somebody else.
func (d *delivery) trust(m *rule, sender string) schemas.Trust {
	if m.sender.trust == nil || d.words(m.sender.author, schemas.MaxID) != sender {
		return ""
	}
	return parts[d.words(m.sender.trust, schemas.MaxID)]
}

// own reports whether the sender is one of us.
func (d *delivery) own(m *rule, by schemas.Sender) bool {
	own := d.src.own
	if by.ID != "" && slices.Contains(own, by.ID) {
		return true
	}
	program := by.Kind == schemas.Automation
	marked := by.ID != "" && slices.Contains(own, markedPrefix+by.ID)
	if len(own) == 0 && !program {
		return false
	}
	made := m.sender.made == nil || d.is(m.sender.made)
	if !made && !(program && d.is(m.sender.changed)) {
		return false
	}
	if len(own) > 0 && m.sender.others != nil {
		for i := range m.sender.others.refs {
			if id := d.words(&value{refs: m.sender.others.refs[i : i+1], optional: true}, schemas.MaxID); id != "" && slices.Contains(own, id) {
				return true
			}
		}
	}
	return (program || marked && made) && d.is(m.sender.mark)
}

// is reports whether a condition holds; one that cannot be read does not.
func (d *delivery) is(c *compiledCondition) bool {
	holds, bad := d.holds(c)
	return holds && bad == nil
}

// beginsLine reports whether a line of a text begins with what a mark begins with. Inside of a line, as behind the > of a quotation, it is
// somebody else's words.
func beginsLine(text, with string) bool {
	return strings.HasPrefix(text, with) || strings.Contains(text, "\n"+with)
}

// conversation reports whether somebody says something in events of a type.
func (s *Source) conversation(typ string) bool {
	name, ok := strings.CutPrefix(typ, s.preset.prefix)
	return ok && slices.ContainsFunc(s.preset.says, func(said string) bool {
		begin, any := strings.CutSuffix(said, "*")
		return name == said || any && strings.HasPrefix(name, begin)
	})
}

// chain returns which agents led to a delivery, where its sender is one.
func (d *delivery) chain() (schemas.Chain, *Unusable) {
	if !d.src.chain {
		return schemas.Chain{}, nil
	}
	h := d.req.Header
	c, err := schemas.ParseChain(strings.Join(h.Values(schemas.ChainHeader), ","), strings.Join(h.Values(schemas.DepthHeader), ","), h.Get(schemas.TraceIDHeader))
	if err != nil {
		flaw, _ := errors.AsType[*schemas.FieldError](err) // ParseChain has no other
		return schemas.Chain{}, unusable(flaw.Reason, "the chain of agents: %v", err)
	}
	return c, nil
}
