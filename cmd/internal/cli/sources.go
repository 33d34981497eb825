package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

type sourcesGetCmd struct {
	listenerFlag
	watchFlag
	ID string `arg:"" name:"team/source" help:"The source, as -o id lists it, or its name alone."`
}

// Run shows one source.
func (c *sourcesGetCmd) Run(e *env, client *api.Client) error {
	i, err := findSource(e, client, c.ID)
	if err != nil {
		return err
	}
	return printOne(e, i, i.Team+"/"+i.Source, func(w io.Writer) { showSource(w, i) })
}

// findSource returns the source that a person named.
func findSource(e *env, client *api.Client, id string) (*api.SourceItem, error) {
	page, err := client.Sources(e.ctx)
	if err != nil {
		return nil, err
	}
	var known []names.Name
	for _, i := range page.Items {
		known = append(known, names.Name{Team: i.Team, Name: i.Source})
	}
	n, err := names.Source.Find(id, "", known)
	if err != nil {
		return nil, err
	}
	return &page.Items[slices.IndexFunc(page.Items, func(i api.SourceItem) bool { return i.Team == n.Team && i.Source == n.Name })], nil
}

// showSource writes a source. A line whose value is empty is left out.
func showSource(w io.Writer, i *api.SourceItem) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-11s %s\n", name, plain(value))
		}
	}
	line("source", i.Team+"/"+i.Source)
	line("preset", i.Preset)
	line("path", i.Path)
	line("topic", i.Topic)
	line("max body", config.Size(i.MaxBody).String())
	line("secrets", strconv.Itoa(i.Keys))
	line("share", strings.Join(i.Share, ", "))
	line("owners", strings.Join(i.Owners, ", "))
	line("contact", i.Contact)
	if s := i.Seen; s != nil {
		line("verified", strconv.FormatInt(s.Verified, 10))
		line("last", formatOptionalTime(s.VerifiedAt))
		line("refused", strconv.FormatInt(s.Refused, 10))
		line("mismatches", strconv.FormatInt(s.Mismatches, 10))
		line("since", formatOptionalTime(s.MismatchedAt))
		for n, of := range s.Secrets {
			used := ""
			if of.LastUsed != nil {
				used = ", the last " + formatTime(*of.LastUsed)
			}
			line(fmt.Sprintf("secret %d", n+1), fmt.Sprintf("here since %s, has verified %d%s", formatTime(of.Since), of.Verified, used))
		}
		if of := s.Skew; of != nil {
			line("skew", fmt.Sprintf("%.1fs to %.1fs from signing to us, of the last %d", of.Least, of.Most, of.Deliveries))
		}
	}
}
