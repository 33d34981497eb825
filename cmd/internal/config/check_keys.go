package config

import (
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// shortSecret is how many characters a secret has at least that nobody can guess.
	shortSecret = 16
	// longTolerance is for how long a captured delivery may be sent again without a question. Presets that need more have it themselves.
	longTolerance = Duration(time.Hour)
)

// sourceKeys notes what is weak in the secrets and tolerances of sources. It refuses nothing: a provider may make short tokens, and a refusal
// would keep the whole team out.
func (ck *checker) sourceKeys() {
	for _, e := range ck.c.Expiring() {
		if now := time.Now(); e.Until.Sub(now) < ExpiresSoon {
			ck.note(e.Key+".expires", "%s", e.InWords(now))
		}
	}
	first := map[string]string{} // the source that has a secret, by its text
	for _, team := range slices.Sorted(maps.Keys(ck.c.Teams)) {
		for _, name := range slices.Sorted(maps.Keys(ck.c.Teams[team].Sources)) {
			s, source := ck.c.Teams[team].Sources[name], team+"/"+name
			path := "teams." + team + ".sources." + name
			for i, secret := range s.Secrets {
				ck.sourceKey(path+".secrets["+itoa(i)+"]", source, secret, first)
			}
			if at := path + ".verify.tolerance"; s.Verify != nil && Duration(s.Verify.Tolerance) > longTolerance && !ck.unresolved(at) {
				ck.note(at, "is more than %s: for so long a captured delivery can be sent again, and only dedupe refuses it", longTolerance)
			}
		}
	}
}

// sourceKey looks at one secret of a source. first has the sources by their secrets, and gets this one.
func (ck *checker) sourceKey(at, source string, secret SourceSecret, first map[string]string) {
	if _, err := parseExpires(secret.Expires); err != nil && !ck.unresolved(at+".expires") {
		ck.problem(at+".expires", "%v", err)
	}
	text := secret.Value.Reveal()
	if text == "" || ck.unresolved(at) || ck.unresolved(at+".value") || strings.HasSuffix(text, ".gserviceaccount.com") { // an account is no secret
		return
	}
	if len(text) < shortSecret {
		ck.note(at, "is shorter than %d characters: who has seen one delivery can try all such secrets; make one with `openssl rand -hex 32`", shortSecret)
	}
	if other := first[text]; other == "" {
		first[text] = source
	} else if other != source {
		ck.note(at, "is also the secret of another source: whoever may sign for one can sign for the other; make one for each with `openssl rand -hex 32`")
	}
}
