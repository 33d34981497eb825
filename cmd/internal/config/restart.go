package config

import (
	"reflect"
	"slices"
)

// Live compares the running configuration with one that was read again, and returns the paths that differ and need a restart. The
// rest can change while the process runs: sources that are new or gone, and of other sources everything but topic, topics, thin and
// backfill.
func Live(running, read *Config) (needRestart []string) {
	other := members(reflect.ValueOf(read).Elem())
	for i, m := range members(reflect.ValueOf(running).Elem()) {
		if m.name == "teams" || m.name == "teams_dir" {
			continue
		}
		if m.name == "intake" {
			if !reflect.DeepEqual(running.writtenIntake(), read.writtenIntake()) {
				needRestart = append(needRestart, m.name)
			}
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

// liveTeam returns what of a team needs a restart, sorted. A team that one of the configurations does not have is nil there.
func liveTeam(path string, running, read *Team) (needRestart []string) {
	if running == nil {
		running = &Team{}
	}
	if read == nil {
		read = &Team{}
	}
	needRestart = append(needRestart, differences(path+".destinations", running.Destinations, read.Destinations)...)
	needRestart = append(needRestart, differences(path+".subscriptions", running.Subscriptions, read.Subscriptions)...)
	for name, before := range running.Sources {
		if after, ok := read.Sources[name]; ok {
			needRestart = append(needRestart, liveSource(path+".sources."+name, before, after)...)
		}
	}
	slices.Sort(needRestart)
	return needRestart
}

// liveSource returns what of a source needs a restart, because the stream uses it, too.
func liveSource(path string, running, read *Source) (needRestart []string) {
	if running.Topics != read.Topics {
		needRestart = append(needRestart, path+".topics")
	}
	if running.Topic != read.Topic {
		needRestart = append(needRestart, path+".topic")
	}
	if !reflect.DeepEqual(running.Thin, read.Thin) {
		needRestart = append(needRestart, path+".thin")
	}
	// The mapping of a backfill's elements takes parts of the source's own event.
	sameMapping := running.Backfill == nil || read.Backfill == nil || reflect.DeepEqual(running.element(), read.element())
	if !sameMapping || !reflect.DeepEqual(running.Backfill, read.Backfill) {
		needRestart = append(needRestart, path+".backfill")
	}
	return needRestart
}

// differences returns the paths of entries that are not the same in both maps, or are in one of them only.
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
