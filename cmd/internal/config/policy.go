package config

import (
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/schemas/expression"
)

// PolicyRule says what becomes of the actions that its condition holds for.
type PolicyRule struct {
	Name   string `yaml:"name"`
	If     string `yaml:"if"`
	Then   string `yaml:"then"`
	Reason string `yaml:"reason"`
}

// Approval is a person's word that an action needs.
type Approval struct {
	Roles    []string `yaml:"roles"`
	Expires  Duration `yaml:"expires"`
	FourEyes bool     `yaml:"four_eyes"`
}

// WithDefaults returns whose word is asked for, and how; also where a rule alone asks for it.
func (a *Approval) WithDefaults() Approval {
	if a == nil {
		a = &Approval{Expires: Duration(24 * time.Hour)}
	}
	out := *a
	if len(out.Roles) == 0 {
		out.Roles = []string{"approver"}
	}
	return out
}

// policy checks the rules of a level.
func (ck *checker) policy(path string, rules []PolicyRule) {
	names := map[string]bool{}
	for i, r := range rules {
		at := path + "[" + itoa(i) + "]"
		if r.Name != "" && !validName(r.Name) {
			ck.problem(at+".name", "name %q must match [a-z0-9-]{1,40}", clip(r.Name))
		} else if r.Name != "" && names[r.Name] {
			ck.problem(at+".name", "rule %s is listed twice", r.Name)
		}
		names[r.Name] = true
		if r.If == "" || ck.unresolved(at+".if") {
			continue
		}
		if _, err := expression.Condition(r.If); err != nil {
			ck.problem(at+".if", "%s", err)
		}
	}
}

// approval checks whose word an action needs.
func (ck *checker) approval(path string, a *Approval) {
	if a == nil {
		return
	}
	may := access.RolesWith(access.Approve)
	for i, role := range a.Roles {
		if !slices.Contains(may, role) {
			ck.problem(path+".roles["+itoa(i)+"]", "role %q may approve nothing: %s may", clip(role), strings.Join(may, ", "))
		}
	}
	ck.between(path+".expires", a.Expires, Duration(time.Minute), Duration(30*24*time.Hour))
}
