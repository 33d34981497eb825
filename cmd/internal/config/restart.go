package config

import (
	"reflect"
	"slices"
)

// Live compares what runs with what was read again. Sources change live: their secrets, limits and mappings, and
// sources that are new or gone. Everything else needs a restart: the list names it by path, empty when nothing does.
func Live(running, read *Config) (needRestart []string) {
	other := members(reflect.ValueOf(read).Elem())
	for i, m := range members(reflect.ValueOf(running).Elem()) {
		if m.name == "teams" || m.name == "teams_dir" {
			continue
		}
		if !reflect.DeepEqual(m.value.Interface(), other[i].value.Interface()) {
			needRestart = append(needRestart, m.name)
		}
	}
	names := append(keys(running.Teams), keys(read.Teams)...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		needRestart = append(needRestart, liveTeam("teams."+name, running.Teams[name], read.Teams[name])...)
	}
	return needRestart
}

func liveTeam(path string, a, b *Team) (list []string) {
	if a == nil {
		a = &Team{}
	}
	if b == nil {
		b = &Team{}
	}
	list = append(list, differences(path+".destinations", a.Destinations, b.Destinations)...)
	list = append(list, differences(path+".subscriptions", a.Subscriptions, b.Subscriptions)...)
	for name, s := range a.Sources {
		t, ok := b.Sources[name]
		if ok && s.Topics != t.Topics {
			list = append(list, path+".sources."+name+".topics")
		}
		if ok && s.Topic != t.Topic {
			list = append(list, path+".sources."+name+".topic")
		}
		if ok && !reflect.DeepEqual(s.Thin, t.Thin) {
			list = append(list, path+".sources."+name+".thin")
		}
		if ok && (!reflect.DeepEqual(s.Backfill, t.Backfill) || s.Backfill != nil && !reflect.DeepEqual(s.element(), t.element())) {
			list = append(list, path+".sources."+name+".backfill")
		}
	}
	slices.Sort(list)
	return list
}

func differences[V any](path string, a, b map[string]*V) (list []string) {
	names := append(keys(a), keys(b)...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !reflect.DeepEqual(a[name], b[name]) {
			list = append(list, path+"."+name)
		}
	}
	return list
}
