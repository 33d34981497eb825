package app

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Two processes with different files may serve one subscription: its events then go by whichever has their partition. So each process says in the
// ledger what it decides by, as a digest and, by key of the files, a hash of each value; whoever looks finds those that differ.

const (
	rolloutFor = 10 * time.Minute // how long a difference may be that of a rollout
	keysNamed  = 5                // keys of which two processes differ, that are named

	whereItLeads = " (where it leads)" // behind the key of a destination: what it calls, by whatever its references lead to
)

// decider is what this process has told the others.
type decider struct {
	ledger.Decider
	told *config.Config // what that was made of; nil: nothing was told
	bars int            // how many subscriptions did not run then
}

// decidesBy returns what this process decides by, and the hashes by subscription and key. What has not changed since before has been so since then.
func (s *streams) decidesBy(l *ledger.Ledger, before map[string]ledger.DecidesBy) (map[string]ledger.DecidesBy, map[string]map[string]string) {
	id, file := l.ID(), s.a.file()
	hash := func(texts ...string) string { // keyed: what is short is not to be found by trying
		h := hmac.New(sha256.New, []byte(fmt.Sprint(id)))
		for _, text := range texts {
			fmt.Fprintf(h, "%d:%s", len(text), text)
		}
		return hex.EncodeToString(h.Sum(nil)[:8])
	}
	by, keys := map[string]ledger.DecidesBy{}, map[string]map[string]string{}
	for _, at := range s.runs() {
		if s.barred(at) != "" {
			continue
		}
		values := file.Decides(at.team, at.name)
		for _, a := range subscriptionIn(file, at).Actions {
			if d, ok := file.Destination(at.team, a.To); ok {
				values[d.Path()+whereItLeads] = s.where(d.FullName())
			}
		}
		name, hashes, whole := at.team+"."+at.name, map[string]string{}, []string(nil)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			hashes[key] = hash(key, values[key])
			whole = append(whole, hashes[key])
		}
		keys[name], by[name] = hashes, ledger.DecidesBy{Digest: hash(whole...), Since: time.Now().UTC()}
		if was, ok := before[name]; ok && was.Digest == by[name].Digest {
			by[name] = was
		}
	}
	return by, keys
}

// tell has the ledger know what this process decides by.
func (t *attention) tell(ctx context.Context, l *ledger.Ledger) error {
	file, bars := t.a.file(), t.a.stream.countBarred()
	if t.me.told == file && t.me.bars == bars {
		if err := l.NoteDecider(ctx, &t.me.Decider, 3*max(attentionEvery, t.every), nil); schemas.KindOf(err) != schemas.NotFound {
			return err
		}
	}
	if t.me.told == nil {
		_, _ = rand.Read(t.me.ID[:]) // never fails
	}
	var keys map[string]map[string]string
	t.me.By, keys = t.a.stream.decidesBy(l, t.me.By)
	t.me.Process = processName()
	if err := l.NoteDecider(ctx, &t.me.Decider, 3*max(attentionEvery, t.every), keys); err != nil {
		return err
	}
	t.me.told, t.me.bars = file, bars
	return nil
}

// forget has the ledger forget this process, which ends.
func (t *attention) forget(ctx context.Context) {
	if t.me.told == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, attentionTry)
	defer cancel()
	l, err := t.a.stream.openLedger()
	if err == nil {
		err = l.ForgetDecider(ctx, t.me.ID)
	}
	if err != nil {
		t.a.log.Debug("the ledger does not forget that this process runs before it has been silent for a while", "error", err)
	}
}

// ofDeciders adds subscriptions for which processes decide by different files.
func (t *attention) ofDeciders(ctx context.Context, l *look) {
	if t.a.stream == nil {
		l.unknown[api.KindDiffers] = noStream
		return
	}
	from, err := t.a.stream.openLedger()
	var rows []api.AttentionItem
	if err == nil {
		err = t.tell(ctx, from)
	}
	if err == nil {
		rows, err = differing(ctx, from, l.at)
	}
	if err != nil {
		l.unknown[api.KindDiffers], l.failed = err.Error(), true
		return
	}
	l.rows = append(l.rows, rows...)
}

// side are processes that decide by the same for a subscription.
type side struct {
	of    ledger.Decider
	since time.Time // since when the last of them does
	names []string
}

// sides returns, by subscription, those who decide for it, where they do not decide by the same: who has done so for longest first.
func sides(all []ledger.Decider) map[string][]side {
	found := map[string][]side{}
	for _, d := range all {
		for name, by := range d.By {
			i := slices.IndexFunc(found[name], func(s side) bool { return s.of.By[name].Digest == by.Digest })
			if i < 0 {
				i, found[name] = len(found[name]), append(found[name], side{of: d, since: by.Since})
			}
			s := &found[name][i]
			s.names = append(s.names, d.Process)
			if by.Since.After(s.since) {
				s.since = by.Since
			}
		}
	}
	maps.DeleteFunc(found, func(_ string, s []side) bool { return len(s) < 2 })
	for _, s := range found {
		slices.SortFunc(s, func(a, b side) int { return cmp.Or(a.since.Compare(b.since), slices.Compare(a.names, b.names)) })
	}
	return found
}

// differing returns the subscriptions for which processes decide by different files, as the list has them.
func differing(ctx context.Context, from *ledger.Ledger, now time.Time) (rows []api.AttentionItem, err error) {
	all, err := from.Deciders(ctx)
	if err != nil {
		return nil, err
	}
	found := sides(all)
	for _, name := range sortedKeys(found) {
		var keys []map[string]string
		for _, s := range found[name] {
			of, err := from.DecidesBy(ctx, s.of.ID, name)
			if err != nil {
				return nil, err
			}
			keys = append(keys, of)
		}
		rows = append(rows, differsRow(name, found[name], notTheSame(keys), now))
	}
	return rows, nil
}

// notTheSame returns the keys of which not all have the same hash, sorted.
func notTheSame(all []map[string]string) (keys []string) {
	for _, some := range all {
		for key, hash := range some {
			if slices.ContainsFunc(all, func(other map[string]string) bool { return other[key] != hash }) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { // where its keys differ, it leads elsewhere as a rule
		path, leads := strings.CutSuffix(key, whereItLeads)
		return leads && slices.ContainsFunc(keys, func(other string) bool { return strings.HasPrefix(other, path+".") })
	})
}

// differsRow returns a subscription for which processes decide by different files as the list has it.
func differsRow(name string, found []side, keys []string, now time.Time) api.AttentionItem {
	team, sub, _ := strings.Cut(name, ".")
	var who []string
	since := found[0].since
	for _, s := range found {
		since = s.since // of the last
		who = append(who, fmt.Sprintf("%s (since %s)", strings.Join(s.names, " and "), s.since.UTC().Format(time.RFC3339)))
	}
	of := strings.Join(keys[:min(len(keys), keysNamed)], ", ")
	if n := len(keys) - keysNamed; n > 0 {
		of += fmt.Sprintf(" and %d more", n)
	}
	row := api.AttentionItem{Kind: api.KindDiffers, ID: name, Team: team, Subscription: sub, Since: timeOrNull(since), Reason: "different_files",
		Detail:  fmt.Sprintf("%s decide by different files, and events go by whichever has their partition: %s; give all the same file, and restart who waits for that", strings.Join(who, ", "), of),
		Command: "forebay config diff"}
	if now.Sub(since) < rolloutFor {
		row.Reason = "rollout"
		row.Detail = fmt.Sprintf("a rollout is under way: %s decide by different files: %s; if it is not over %s after its last step, somebody was left behind", strings.Join(who, ", "), of, api.DurationText(rolloutFor))
	}
	return row
}
