package jsonschema

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every file is a schema, and says in the same way what it is, for which types, and where that is from.
func TestFilesOfTheCatalogue(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("events")
	if err != nil || len(entries) < 50 || len(entries) != len(All()) {
		t.Fatalf("%d files, %d schemas, %v", len(entries), len(All()), err)
	}
	owner := map[string]string{}
	for i, s := range All() {
		name := strings.TrimSuffix(entries[i].Name(), ".json")
		if !regexp.MustCompile(`^urn:forebay:schema:` + regexp.QuoteMeta(name) + `:[1-9][0-9]*$`).MatchString(s.ID) {
			t.Errorf("%s: $id is %q: it is the file's name between urn:forebay:schema: and a number", name, s.ID)
		}
		if s.tree["$schema"] != Draft || s.Title == "" || len(s.Types) == 0 {
			t.Errorf("%s: $schema %v, title %q, types %v", name, s.tree["$schema"], s.Title, s.Types)
		}
		comment, _ := s.tree["$comment"].(string)
		if !strings.Contains(comment, "Sources: https://") && !strings.HasPrefix(name, "forebay.") {
			t.Errorf("%s: $comment does not say where it is from: %q", name, comment)
		}
		for _, glob := range s.Types {
			if star := strings.IndexByte(glob, '*'); star >= 0 && !strings.HasSuffix(glob[:star+1], ".*") || star >= 0 && star != len(glob)-1 {
				t.Errorf("%s: x-types has %q: a star is the last part", name, glob)
			}
			if before, taken := owner[glob]; taken {
				t.Errorf("%s and %s are for %s", before, name, glob)
			}
			owner[glob] = name
		}
		if (s.cost.each > 0 || s.cost.bytes > 0) && !strings.HasPrefix(name, "forebay.") {
			t.Errorf("%s: a check takes %+v: none of a provider goes over elements or bytes", name, s.cost)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for typ, want := range map[string]string{
		"com.github.issues.opened":                 "com.github.issues",
		"com.github.push":                          "com.github.push",
		"com.github.pull_request_review.submitted": "com.github.pull_request_review",
		"com.github.repository_dispatch.deploy.eu": "com.github.repository_dispatch",
		"com.github.star.created":                  "",
		"com.slack.message.channel_join":           "com.slack.message",
		"com.slack.team_join":                      "",
		"com.stripe.customer.updated":              "com.stripe.customer",
		"com.stripe.customer.subscription.deleted": "com.stripe.customer.subscription",
		"com.stripe.customer.source.created":       "com.stripe",
		"com.stripe.charge.refund.updated":         "com.stripe.refund",
		"com.stripe":                               "",
		"forebay.decision":                         "forebay.decision",
		"order.created":                            "",
		"":                                         "",
	} {
		s, ok := Of(typ)
		if got := strings.Trim(strings.TrimPrefix(idOrEmpty(s), "urn:forebay:schema:"), ":1"); got != want || ok != (want != "") {
			t.Errorf("%q: %q, want %q", typ, got, want)
		}
	}
	for _, name := range []string{"urn:forebay:schema:com.stripe.price:1", "com.stripe.price", "com.stripe.price.updated"} {
		if s, ok := Lookup(name); !ok || s.Title != "Stripe: price" || s.Name() != "com.stripe.price" {
			t.Errorf("%s: %v", name, s)
		}
	}
	if s, ok := Lookup("com.stripes"); ok {
		t.Errorf("com.stripes is %s", s.ID)
	}
}

func idOrEmpty(s *Schema) string {
	if s == nil {
		return ""
	}
	return s.ID
}
