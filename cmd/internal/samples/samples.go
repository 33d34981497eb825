// Package samples holds real provider payloads for `forebay send` and for the scene that `forebay dev` plays. Their
// origins and licences are in payloads/SOURCES.md.
package samples

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/names"
)

//go:embed payloads headers.json
var files embed.FS

// Sample is one request body with the headers that came with it, signature and delivery id excepted.
type Sample struct {
	Provider string
	Name     string // the file's name without its ending, "issues.labeled"
	Headers  map[string]string
	Body     []byte
}

// Names lists the samples as "provider/name".
func Names() []string {
	var names []string
	dirs, _ := files.ReadDir("payloads") // embedded: cannot fail
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		entries, _ := files.ReadDir(path.Join("payloads", d.Name()))
		for _, e := range entries {
			names = append(names, d.Name()+"/"+strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
		}
	}
	slices.Sort(names)
	return names
}

// Lookup finds a sample by "provider/name".
func Lookup(name string) (Sample, error) {
	body, err := files.ReadFile("payloads/" + name + ".json")
	if err != nil {
		near := names.Nearest(name, Names())
		if near != "" {
			near = "did you mean " + near + "? "
		}
		return Sample{}, fmt.Errorf("no sample %q; %sthere are: %s", name, near, strings.Join(Names(), ", "))
	}
	s := Sample{Body: body, Headers: map[string]string{"Content-Type": "application/json"}}
	s.Provider, s.Name, _ = strings.Cut(name, "/")
	maps.Copy(s.Headers, headers()[name])
	return s, nil
}

// headers returns the headers that samples have beside their content type, by the sample's name such as "github/push". Some providers
// name the event's type or id in a header and not in the body.
func headers() map[string]map[string]string {
	raw, err := files.ReadFile("headers.json")
	var byName map[string]map[string]string
	if err := errors.Join(err, json.Unmarshal(raw, &byName)); err != nil {
		panic("samples: headers.json is embedded and broken: " + err.Error()) // cannot happen in a binary whose tests have passed
	}
	return byName
}
