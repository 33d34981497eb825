package config

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/schemas/expression"
)

// A reload reads all files, compiles the expressions that are new, and leaves large changes to the next one, see [Config.later]. Measured on one
// core, in CPU time:
//   - what has no expressions takes 1.4 us a byte, changed or not: 0.7 s for maxTeamFile;
//   - an ordinary expression takes 2 us a character when it is new, the worst that is let in 8 us (2000 characters, nested 15 deep), the worst that
//     is refused 17 us: 0.2 s, 0.8 s and 1.7 s for maxExpressions. The shortest takes as long as oneMore characters.
const (
	maxTeamFile    = 512 << 10 // of a team's file, in bytes
	maxExpressions = 100_000   // characters of the expressions of a team, and of those that are no team's
	oneMore        = 10
)

// counted counts the characters of expressions at a path. Those for which there is no room are not compiled; the first of them is a problem.
func (d *decoder) counted(n *yaml.Node, path string, length int) {
	of := ""
	if steps := strings.SplitN(path, ".", 3); steps[0] == "teams" && len(steps) > 2 {
		of = steps[1]
	}
	if d.expressions == nil {
		d.expressions = map[string]int{}
	}
	before := d.expressions[of]
	if d.expressions[of] += length; length == 0 || before+length <= maxExpressions {
		return
	}
	d.unresolved[path] = true
	if before <= maxExpressions {
		d.problem(n, path, "is one expression too many: those of a team have %d characters together at most, each counted with %d more", maxExpressions, oneMore)
	}
}

// inBraces returns the length of the expressions of a template, as they are counted.
func inBraces(text string) (length int) {
	for {
		_, inner, found := strings.Cut(text, "{{")
		end := expression.End(inner, "}}")
		if !found || end < 0 {
			return length
		}
		length += end + oneMore
		text = inner[end+2:]
	}
}
