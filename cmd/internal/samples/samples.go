// Package samples is the real provider payloads of `forebay send` and of the scene that `forebay dev` plays. They are among the test vectors in
// ingest/vectors; here is under which names they are found.
package samples

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/vectors"
)

// Sample is one request body with the headers that came with it, signature and delivery id excepted.
type Sample struct {
	Provider string
	Name     string // the file's name without its ending, "issues.labeled"
	Headers  map[string]string
	Body     []byte
}

// payload is an entry of payloads/index.json.
type payload struct {
	File    string            `json:"file"` // below payloads
	Headers map[string]string `json:"headers"`
}

// index has the samples by name, "provider/name".
var index = sync.OnceValue(func() map[string]payload {
	var list struct {
		Payloads []payload `json:"payloads"`
	}
	text, err := vectors.Samples.ReadFile("payloads/index.json")
	if err = cmp.Or(err, json.Unmarshal(text, &list)); err != nil {
		panic("samples: index.json is embedded and broken: " + err.Error()) // cannot happen in a binary whose tests have passed
	}
	byName := make(map[string]payload, len(list.Payloads))
	for _, p := range list.Payloads {
		byName[strings.TrimSuffix(p.File, path.Ext(p.File))] = p
	}
	return byName
})

// Names lists the samples as "provider/name".
func Names() []string { return slices.Sorted(maps.Keys(index())) }

// Providers lists the providers that have samples.
func Providers() []string {
	of := map[string]bool{}
	for name := range index() {
		provider, _, _ := strings.Cut(name, "/")
		of[provider] = true
	}
	return slices.Sorted(maps.Keys(of))
}

// Lookup finds a sample by "provider/name".
func Lookup(name string) (Sample, error) {
	of, ok := index()[name]
	if !ok {
		return Sample{}, unknown(name)
	}
	body, err := vectors.Samples.ReadFile("payloads/" + of.File)
	if err != nil {
		return Sample{}, err
	}
	s := Sample{Body: body, Headers: map[string]string{"Content-Type": "application/json"}}
	if path.Ext(of.File) == ".txt" {
		s.Headers["Content-Type"] = "application/x-www-form-urlencoded"
	}
	s.Provider, s.Name, _ = strings.Cut(name, "/")
	maps.Copy(s.Headers, of.Headers)
	return s, nil
}

// unknown says which samples there are of the provider that is named, or which providers have some.
func unknown(name string) error {
	provider, _, _ := strings.Cut(name, "/")
	of := slices.DeleteFunc(Names(), func(n string) bool { return !strings.HasPrefix(n, provider+"/") })
	near := names.Nearest(name, Names())
	if near != "" {
		near = "did you mean " + near + "? "
	}
	if len(of) == 0 {
		return fmt.Errorf("no sample %q; %sthere are some of %s", name, near, strings.Join(Providers(), ", "))
	}
	return fmt.Errorf("no sample %q; %sthere are: %s", name, near, strings.Join(of, ", "))
}
