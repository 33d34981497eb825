package cli

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

type sourcesRotateSecretCmd struct {
	listenerFlag
	ID string `arg:"" name:"team/source" help:"The source, as -o id lists it, or its name alone."`
}

// rotation is how far a source is in getting another secret.
type rotation struct {
	Source string `json:"source"`
	// NewSecret is one that nobody has yet; only of a source that has a single secret, which is not the provider's to make, as a public key is.
	NewSecret string `json:"new_secret,omitempty"`
	// Horizon is for how long the provider may still repeat what it signed with an old secret.
	Horizon float64         `json:"horizon_seconds"`
	Secrets []rotatedSecret `json:"secrets"`

	theirs bool // there is a single secret, and the provider makes the next
}

type rotatedSecret struct {
	api.SecretItem
	// Quiet is for how long the secret has verified nothing.
	Quiet float64 `json:"quiet_seconds"`
	// Removable: it has ended; or another one verifies, and this has verified nothing for longer than the provider repeats. One that never did may be new.
	Removable bool `json:"removable"`

	ended bool
}

// Run says what to do next to give a source another secret.
func (c *sourcesRotateSecretCmd) Run(e *env, client *api.Client) error {
	i, err := findSource(e, client, c.ID)
	if err != nil {
		return err
	}
	info, _ := provider.Lookup(i.Preset)
	r := rotate(i, info, time.Now())
	return printOne(e, r, r.Source, func(w io.Writer) { showRotation(w, r, cmp.Or(info.Title, "the provider")) })
}

// unknownHorizon is how long an old secret stays where nobody knows for how long the provider repeats.
const unknownHorizon = 3 * 24 * time.Hour

func rotate(i *api.SourceItem, info provider.Info, now time.Time) rotation {
	horizon := cmp.Or(info.RetryHorizon.Std(), unknownHorizon)
	r := rotation{Source: i.Team + "/" + i.Source, Horizon: horizon.Seconds()}
	if i.Keys == 1 || i.Keys == 0 && i.Seen != nil && len(i.Seen.Secrets) > 0 { // beside several that are taken, the new one is there already
		r.NewSecret = newSecret(info.Scheme)
		_, err := verify.New(info.Verify, []schemas.Secret{schemas.NewSecret(r.NewSecret)})
		if e, ok := errors.AsType[*verify.Error](err); ok && e.Reason == verify.BadKey { // else it is the file that says how a delivery is verified
			r.NewSecret, r.theirs = "", true
		}
	}
	if i.Seen == nil {
		return r
	}
	ended := func(s api.SecretItem) bool { return s.Until != nil && !now.Before(*s.Until) }
	var latest time.Time // of one that stays
	for _, s := range i.Seen.Secrets {
		if !ended(s) && s.LastUsed != nil && s.LastUsed.After(latest) {
			latest = *s.LastUsed
		}
	}
	for _, s := range i.Seen.Secrets {
		last := s.Since
		if s.LastUsed != nil {
			last = *s.LastUsed
		}
		quiet := max(now.Sub(last), 0)
		r.Secrets = append(r.Secrets, rotatedSecret{s, quiet.Seconds(), ended(s) || quiet > horizon && latest.After(last), ended(s)})
	}
	return r
}

// newSecret returns 32 random bytes in the form that Standard Webhooks has, and 20 in hex for other schemes: some providers take 40 characters
// at most.
func newSecret(scheme string) string {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	if scheme == verify.SchemeStandardWebhooks {
		return "whsec_" + base64.StdEncoding.EncodeToString(key)
	}
	return hex.EncodeToString(key[:20])
}

var unlessNew = map[bool]string{true: ", unless it is the new one and the provider does not have it yet"}

func showRotation(w io.Writer, r rotation, title string) {
	horizon := config.Duration(time.Duration(r.Horizon) * time.Second).String()
	fmt.Fprintf(w, "%s, as the process that was asked has seen it since it has its secrets; ask each intake:\n", plain(r.Source))
	for n, s := range r.Secrets {
		used := "verified nothing yet"
		if s.LastUsed != nil {
			used = fmt.Sprintf("verified %d, the last %s", s.Verified, formatTime(*s.LastUsed))
		}
		next := ""
		if len(r.Secrets) > 1 {
			next = ": keep it"
		}
		switch {
		case s.ended && len(r.Secrets) == 1:
			next = ": has ended, and nothing is taken until another one is in the file"
		case s.ended:
			next = ": has ended: take it out of the file"
		case s.Removable:
			next = fmt.Sprintf(": take it out of the file%s; another one verifies, and this has not for more than %s", unlessNew[s.LastUsed == nil], horizon)
		}
		fmt.Fprintf(w, "  secret %d  here since %s, %s%s\n", n+1, formatTime(s.Since), used, next)
	}
	if len(r.Secrets) == 0 {
		fmt.Fprintln(w, "  it has no intake, and so has seen nothing")
	}
	fmt.Fprintln(w)
	if r.theirs {
		fmt.Fprintf(w, "A new one is not made here: it is what %s shows, such as a public key. Add it to the source's secrets, behind the old one, before it is used.\n", title)
	}
	if r.NewSecret == "" {
		fmt.Fprintf(w, "A secret may go once another one verifies and it has verified nothing for %s: so long may %s repeat what it signed before.\n", horizon, title)
		return
	}
	fmt.Fprintf(w, "A new secret, which is nowhere else:\n\n  %s\n\n", r.NewSecret)
	fmt.Fprintf(w, "1. Add it to the source's secrets, behind the old one, by a reference (${env:NAME} or ${file:PATH}). The file is reloaded; from then on either is taken.\n"+
		"   A variable or a credential of systemd is read when a process starts: restart the intakes (kubectl rollout restart, systemctl restart forebay@intake) first.\n")
	fmt.Fprintf(w, "2. Enter it at %s. Where %s makes secrets itself, have it make one, and add that to the file first.\n", title, title)
	fmt.Fprintf(w, "3. Look here again: once the old one has verified nothing for %s, for which %s may repeat what it signed before, take it out.\n", horizon, title)
}
