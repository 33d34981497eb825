package config

import "slices"

const (
	mostOwners = 16
	mostPerson = 200 // characters of an owner or a contact
)

// People returns who answers for a subscription and where they are reached; for what is a team's and no subscription's, who does for the
// team. Empty where nobody is named.
func (c *Config) People(team, subscription string) (owners []string, contact string) {
	t := c.Teams[team]
	if t == nil {
		return nil, ""
	}
	if sub := t.Subscriptions[subscription]; sub != nil {
		return slices.Clone(sub.Owners), sub.Contact
	}
	return slices.Clone(t.Owners), t.Contact
}

// people checks owners and contact of a team or a subscription, which lists show.
func (ck *checker) people(path string, owners []string, contact string) {
	if !ck.written(path+".owners") && !ck.written(path+".contact") {
		return // a subscription's are its team's, and are checked there
	}
	if len(owners) > mostOwners {
		ck.problem(path+".owners", "%d are more than %d: name a group", len(owners), mostOwners)
	}
	for i, owner := range owners {
		ck.person(path+".owners["+itoa(i)+"]", owner)
		if slices.Index(owners, owner) < i {
			ck.problem(path+".owners["+itoa(i)+"]", "%q is listed twice", clip(owner))
		}
	}
	if ck.written(path + ".contact") {
		ck.person(path+".contact", contact)
	}
}

func (ck *checker) person(path, text string) {
	if !ck.unresolved(path) && (text == "" || len(text) > mostPerson || hasControls(text)) {
		ck.problem(path, "is not 1 to %d characters without control characters", mostPerson)
	}
}
