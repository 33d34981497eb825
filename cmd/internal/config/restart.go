package config

import (
	"reflect"
	"slices"
	"strings"
)

// NeedsRestart compares the running configuration with one that was read again, and returns the paths that differ and need a restart. The
// rest can change while the process runs: sources that are new or gone, of other sources everything but topic, topics, thin and
// backfill, quotas, the registry, who answers for what, and what references in kafka.sasl lead to.
func NeedsRestart(running, read *Config) (needRestart []string) {
	other := members(reflect.ValueOf(read).Elem())
	for i, m := range members(reflect.ValueOf(running).Elem()) {
		if m.name == "teams" || m.name == "teams_dir" || m.name == "quotas" || m.name == "registry" {
			continue
		}
		switch {
		case m.name == "intake":
			if !reflect.DeepEqual(running.writtenIntake(), read.writtenIntake()) {
				needRestart = append(needRestart, m.name)
			}
		case m.name == "kafka":
			if !reflect.DeepEqual(running.lastingKafka(), read.lastingKafka()) {
				needRestart = append(needRestart, m.name)
			}
		case m.name == "destinations":
			needRestart = append(needRestart, differences(m.name, running.Destinations, read.Destinations)...)
		case !reflect.DeepEqual(m.value.Interface(), other[i].value.Interface()):
			needRestart = append(needRestart, m.name)
		}
	}
	names := append(keys(running.Teams), keys(read.Teams)...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		needRestart = append(needRestart, liveTeam("teams."+name, running.Teams[name], read.Teams[name])...)
	}
	return slices.DeleteFunc(needRestart, func(path string) bool { return stopped(running, read, path) })
}

// stopped reports whether path is that of a subscription which loses another team's source, and is stopped. Its defaults follow its sources:
// that these change is no reason to keep all teams from what they changed. What it may read again needs a restart then.
func stopped(running, read *Config, path string) bool {
	rest, ok := strings.CutPrefix(path, "teams.")
	team, name, ok2 := strings.Cut(rest, ".subscriptions.")
	return ok && ok2 && running.Teams[team] != nil && running.Teams[team].Subscriptions[name] != nil &&
		read.Barred(team, name) != "" && read.Shares().Withdrawn(team, running.SourcesOf(team, name)) != ""
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
	needRestart = append(needRestart, differences(path+".subscriptions", nameless(running.Subscriptions), nameless(read.Subscriptions))...)
	for name, before := range running.Sources {
		if after, ok := read.Sources[name]; ok {
			needRestart = append(needRestart, liveSource(path+".sources."+name, before, after)...)
		}
	}
	slices.Sort(needRestart)
	return needRestart
}

// nameless returns subscriptions without those who answer for them, which are only shown.
func nameless(subs map[string]*Subscription) map[string]*Subscription {
	list := map[string]*Subscription{}
	for name, sub := range subs {
		other := *sub
		other.Owners, other.Contact = nil, ""
		list[name] = &other
	}
	return list
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
