package cli

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The scripts for the shells. Each asks `forebay __complete WORD...` for the words that may stand in the place of the last one.
var (
	//go:embed completion.bash
	completionBash string
	//go:embed completion.zsh
	completionZsh string
	//go:embed completion.fish
	completionFish string
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

func (c *completionCmd) Run(e *env) error {
	script := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}[c.Shell]
	_, err := io.WriteString(e.Stdout, script)
	return err
}

// completeWord is the word in the place of a command that makes forebay complete the words behind it.
const completeWord = "__complete"

// candidate is a word that may stand where the shell is asked to complete one.
type candidate struct{ word, help string }

// complete prints what may stand in the place of the last word, one candidate a line: the word, and behind a tab what it means. Where
// nothing is printed, the shell offers files.
func complete(w io.Writer, app *kong.Application, words []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	for _, c := range candidates(app, words[:len(words)-1], last) {
		if strings.HasPrefix(c.word, last) {
			fmt.Fprintf(w, "%s\t%s\n", c.word, c.help)
		}
	}
}

// candidates returns what may follow the words before.
func candidates(app *kong.Application, before []string, last string) []candidate {
	node, arguments := app.Node, 0
	var open *kong.Flag // whose value is to come
	for _, word := range before {
		switch child := childOf(node, word); {
		case word == "=": // bash takes --flag=value for three words
		case open != nil:
			open = nil
		case strings.HasPrefix(word, "-"):
			if flag := flagOf(node, word); flag != nil && !flag.IsBool() && !flag.IsCounter() && !strings.Contains(word, "=") {
				open = flag
			}
		case child != nil:
			node = child
		default:
			arguments++
		}
	}
	name, _, assigned := strings.Cut(last, "=")
	switch {
	case last == "=" && open != nil:
		return nil // bash asks again as soon as a letter follows
	case open != nil:
		return valuesOf(open.Value, "")
	case assigned && strings.HasPrefix(last, "--"):
		if flag := flagOf(node, name); flag != nil {
			return valuesOf(flag.Value, name+"=")
		}
		return nil
	case strings.HasPrefix(last, "-"):
		return flagsOf(node)
	}
	var all []candidate
	for _, child := range node.Children {
		if !child.Hidden && arguments == 0 {
			all = append(all, candidate{child.Name, child.Help})
		}
	}
	if arguments < len(node.Positional) {
		all = append(all, valuesOf(node.Positional[arguments], "")...)
	}
	return all
}

func childOf(node *kong.Node, name string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == name || slices.Contains(child.Aliases, name) })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}

// flagOf returns the flag that a word such as --output, --output=json or -o names.
func flagOf(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(word, "=")
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if name == "--"+flag.Name || flag.Short != 0 && name == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

func flagsOf(node *kong.Node) (all []candidate) {
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			all = append(all, candidate{"--" + flag.Name, flag.Help})
		}
	}
	return all
}

// valuesOf returns the values of a closed list; none where any value may stand.
func valuesOf(v *kong.Value, prefix string) (all []candidate) {
	if v.Enum == "" {
		return nil
	}
	for _, value := range v.EnumSlice() {
		all = append(all, candidate{prefix + value, ""})
	}
	return all
}
