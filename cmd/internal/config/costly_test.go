package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestExpressionsOfATeamAreBounded: what a team writes is compiled up to a bound, wherever it may write expressions; behind it the team's file is
// refused, by one problem, and the others have their changes.
func TestExpressionsOfATeamAreBounded(t *testing.T) {
	t.Parallel()
	fits := "'" + strings.Repeat("a", 1800) + "'" // of 55
	for name, way := range map[string]struct{ once, entry, expression string }{
		"match":  {"    subscriptions:\n", "      s%d: {sources: [s], match: \"%s\", actions: [{name: run, to: d}]}\n", fits + " != ''"},
		"when":   {"    subscriptions:\n", "      s%d: {sources: [s], actions: [{name: run, to: d, when: \"%s\"}]}\n", fits + " != ''"},
		"also":   {"    subscriptions:\n", "      s%d: {sources: [s], dedupe: {also: {key: \"%s\"}}, actions: [{name: run, to: d}]}\n", fits},
		"params": {"    subscriptions:\n", "      s%d: {sources: [s], actions: [{name: run, to: d, params: {body: \"text {{%s}} text\"}}]}\n", fits},
		"policy": {"    policy:\n", "      - {name: r%d, if: \"%s\", then: allow}\n", fits + " != ''"},
		"cel":    {"    sources:\n", "      s%d: {preset: generic, secrets: [x], verify: {signature_header: X-Signature}, event: {id: header:X-Id, type: \"cel:%s\", entity: []}}\n", fits},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVillage(t, "")
			v.write("forebay.yaml", "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\npostgres: {url: \"postgres://localhost/x\"}\nteams_dir: teams\n")
			v.write("teams/other.yaml", "teams: {other: {sources: {first: {preset: github, secrets: [x]}}}}\n")
			o := Options{Path: filepath.Join(v.dir, "forebay.yaml"), Run: true}
			running, err := Load(o)
			if err != nil {
				t.Fatal(err)
			}
			costly := func(n int, last string) {
				var b strings.Builder
				b.WriteString("teams:\n  costly:\n")
				if name != "cel" {
					b.WriteString("    sources: {s: {preset: github, secrets: [x]}}\n    destinations: {d: {type: http, url: \"https://example.com\"}}\n")
				}
				b.WriteString(way.once)
				for i := range n {
					fmt.Fprintf(&b, way.entry, i, way.expression)
				}
				fmt.Fprintf(&b, way.entry, n, last)
				v.write("teams/costly.yaml", b.String())
			}
			costly(50, way.expression)
			if _, kept, err := running.Reload(o); err != nil || len(kept) > 0 {
				t.Errorf("below the bound: %v %v", kept, err)
			}
			costly(60, "nope") // behind the bound nothing is compiled
			v.write("teams/other.yaml", "teams: {other: {sources: {second: {preset: github, secrets: [x]}}}}\n")
			read, kept, err := running.Reload(o)
			if err != nil || len(kept) != 1 || filepath.Base(kept[0].File) != "costly.yaml" || !strings.HasPrefix(kept[0].Message, "is one expression too many: those of a team have 100000 characters") {
				t.Errorf("above the bound: %v %v", kept, err)
			}
			if read == nil || read.Teams["other"].Sources["second"] == nil {
				t.Error("another team's change was not taken")
			}
		})
	}
}

func TestATeamsFileIsBounded(t *testing.T) {
	t.Parallel()
	v := newVillage(t, "")
	v.write("forebay.yaml", "version: 1\nkafka: {brokers: [\"127.0.0.1:9092\"]}\npostgres: {url: \"postgres://localhost/x\"}\nteams_dir: teams\n")
	text := "teams: {acme: {sources: {first: {preset: github, secrets: [x]}}}} #"
	for size, fits := range map[int]bool{maxTeamFile: true, maxTeamFile + 1: false} {
		v.write("teams/acme.yaml", text+strings.Repeat(" ", size-len(text)))
		if _, err := Load(Options{Path: filepath.Join(v.dir, "forebay.yaml")}); (err == nil) != fits {
			t.Errorf("a team's file of %d bytes: %v", size, err)
		}
	}
}

// TestReferencesOfATeamsFileAreBounded: a file is read once, however often a team's file refers to it, and what all references of that lead to is kept
// only up to a bound.
func TestReferencesOfATeamsFileAreBounded(t *testing.T) {
	t.Parallel()
	v := newVillage(t, `{files: ["DIR/secrets/{team}/*"]}`)
	v.write("secrets/a/big", strings.Repeat("x", maxReferenced))
	for uses, fits := range map[int]bool{maxReferences / maxReferenced: true, maxReferences/maxReferenced + 1: false} {
		text := "teams: {a: {sources: {"
		for n := range uses {
			text += fmt.Sprintf("s%d: {preset: github, secrets: [\"${file:%s}\"]}, ", n, v.path("secrets/a/big"))
		}
		v.write("teams/a.yaml", text+"}}}")
		reads := 0
		_, err := Load(Options{Path: v.path("forebay.yaml"), Lookup: func(name string) (string, bool) { return v.env[name], true }, See: func(path string) {
			if strings.HasSuffix(path, "big") {
				reads++
			}
		}})
		if reads != 1 {
			t.Errorf("%d uses: read %d times", uses, reads)
		}
		if beyond := err != nil && strings.Contains(err.Error(), "lead to 33554432 bytes together"); beyond == fits {
			t.Errorf("%d uses: %v", uses, err)
		}
	}
}
