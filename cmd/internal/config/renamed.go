package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/forebay-io/forebay/ingest/provider"
)

// renamed says what a key of earlier versions is called now.
type renamed struct {
	now  string // a key of the same mapping, or a whole path
	with string // what else has to be written, or how
}

// renamedKeys has the keys that have another name by now, by the mapping that they stood in.
var renamedKeys = map[reflect.Type]map[string]renamed{
	reflect.TypeFor[Kafka]():                {"batch_pace": {now: "batch_wait"}},
	reflect.TypeFor[Postgres]():             {"max_conns": {now: "connections"}},
	reflect.TypeFor[Listen]():               {"public_url": {now: "intake.public_url"}},
	reflect.TypeFor[SmallBodies]():          {"body": {now: "max_body"}},
	reflect.TypeFor[PerAddress]():           {"bytes": {now: "memory"}},
	reflect.TypeFor[Rate]():                 {"per_second": {now: "limit", with: " with per: 1s"}},
	reflect.TypeFor[CallRate]():             {"per_second": {now: "limit", with: " with per: 1s"}},
	reflect.TypeFor[Long]():                 {"most": {now: "concurrency"}},
	reflect.TypeFor[provider.EventConfig](): {"headers": {now: "keep_headers"}},
}

// renamedKey reports a key by its earlier name, if it is one of the mapping at path. The value of the key that it is now is then not
// known: nothing says that this one is missing. It returns that key, if it is of the same mapping.
func (d *decoder) renamedKey(n *yaml.Node, path, key string, of reflect.Type) (now string, ok bool) {
	r, ok := renamedKeys[of][key]
	if !ok {
		return "", false
	}
	if strings.Contains(r.now, ".") {
		d.problem(n, join(path, key), "is %s now", r.now)
		d.unresolved[r.now] = true
		return "", true
	}
	d.problem(n, join(path, key), "is %s.%s%s now", path[strings.LastIndexByte(path, '.')+1:], r.now, r.with)
	d.unresolved[join(path, r.now)] = true
	return r.now, true
}
