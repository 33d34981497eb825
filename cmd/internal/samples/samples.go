// Package samples is the real provider payloads of `forebay send` and of the scene that `forebay dev` plays. They are among the test vectors in
// ingest/vectors; here is under which names they are found, and which headers came with them.
package samples

import (
	_ "embed" // headers.json
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/vectors"
)

// headersFile has the headers of samples beside their content type, by the sample's name such as "github/push". Some providers name the
// event's type or id in a header and not in the body.
//
//go:embed headers.json
var headersFile []byte

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
	dirs, _ := vectors.Samples.ReadDir("payloads") // embedded: cannot fail
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		entries, _ := vectors.Samples.ReadDir(path.Join("payloads", d.Name()))
		for _, e := range entries {
			names = append(names, d.Name()+"/"+strings.TrimSuffix(e.Name(), path.Ext(e.Name())))
		}
	}
	slices.Sort(names)
	return names
}

// Lookup finds a sample by "provider/name".
func Lookup(name string) (Sample, error) {
	body, err := vectors.Samples.ReadFile("payloads/" + name + ".json")
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

func headers() map[string]map[string]string {
	var byName map[string]map[string]string
	if err := json.Unmarshal(headersFile, &byName); err != nil {
		panic("samples: headers.json is embedded and broken: " + err.Error()) // cannot happen in a binary whose tests have passed
	}
	return byName
}
