package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
)

type alertsListCmd struct {
	listenerFlag
	watchFlag
	Silences bool `help:"List the silences that have not ended, with who made them and why."`
}

func (c *alertsListCmd) Run(e *env, client *api.Client) error {
	list, err := client.Alerts(e.ctx)
	if err != nil {
		return err
	}
	if list.NotLookedFor {
		fmt.Fprintln(e.Stderr, noReceiver)
	}
	if c.Silences {
		type item = api.SilenceItem
		return printList(e, api.Page[item]{Items: list.Silences}, silenceID,
			column[item]{name: "id", value: silenceID},
			column[item]{name: "alert", value: func(i item) string { return i.Alert }},
			column[item]{name: "team", value: func(i item) string { return i.Team }},
			column[item]{name: "until", at: func(i item) *time.Time { return &i.Until }},
			column[item]{name: "by", value: func(i item) string { return i.By }},
			column[item]{name: "since", wide: true, at: func(i item) *time.Time { return &i.CreatedAt }},
			column[item]{name: "reason", value: func(i item) string { return i.Reason }})
	}
	type item = api.AlertItem
	return printList(e, api.Page[item]{Items: list.Items}, func(i item) string { return i.Alert },
		column[item]{name: "alert", value: func(i item) string { return i.Alert }},
		column[item]{name: "severity", wide: true, value: func(i item) string { return i.Severity }},
		column[item]{name: "team", wide: true, value: func(i item) string { return i.Team }},
		column[item]{name: "since", at: func(i item) *time.Time { return &i.Since }},
		column[item]{name: "silenced", at: func(i item) *time.Time { return i.SilencedUntil }},
		column[item]{name: "summary", value: func(i item) string { return i.Summary }},
		column[item]{name: "runbook", wide: true, value: func(i item) string { return i.RunbookURL }})
}

// noReceiver is what a process says of alerts that looks for none.
const noReceiver = "no receiver is in the file: this process looks for no alerts (alerts.receivers); Prometheus knows which fire, silence them there"

func silenceID(i api.SilenceItem) string { return strconv.FormatInt(i.ID, 10) }

type alertsSilenceCmd struct {
	listenerFlag
	Alert  string `arg:"" help:"The alert, as the list shows it."`
	Team   string `help:"Only for this team. Without it: for all teams, and for alerts that belong to no team."`
	For    string `required:"" placeholder:"DURATION" help:"For how long: 30m, 2h, 1d; 30 days at most."`
	Reason string `placeholder:"TEXT" help:"Why; kept with who said so and when."`
	DryRun bool   `help:"Check what is asked, and silence nothing."`
}

func (c *alertsSilenceCmd) Run(e *env, client *api.Client) error {
	length, err := config.ParseDuration(c.For)
	r := api.SilenceRequest{Team: c.Team, Seconds: int64(length.Std() / time.Second), Reason: strings.TrimSpace(c.Reason), By: whoAmI(), DryRun: c.DryRun}
	switch {
	case err != nil || r.Seconds < 1:
		return usageError("--for %q is not a duration of a second or more, such as 30m, 2h or 1d", c.For)
	case r.Reason == "" && !c.DryRun:
		return usageError("--reason is needed: it is kept with the silence")
	}
	made, err := client.SilenceAlert(e.ctx, c.Alert, r)
	if err != nil {
		return err
	}
	if err := printSilence(e, made); err != nil {
		return err
	}
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was silenced")
		return nil
	}
	if list, err := client.Alerts(e.ctx); err == nil && list.NotLookedFor {
		fmt.Fprintf(e.Stderr, "%s; of alert %s only processes of the ledger that look for it send nothing until %s\n",
			noReceiver, plain(made.Alert), formatTime(made.Until))
		return nil
	}
	fmt.Fprintf(e.Stderr, "alert %s is silenced until %s: nothing is sent of it before then; `forebay alerts unsilence %d --reason TEXT` ends that earlier\n", plain(made.Alert), formatTime(made.Until), made.ID)
	return nil
}

func printSilence(e *env, s *api.SilenceItem) error {
	return printOne(e, s, silenceID(*s), func(w io.Writer) {
		fmt.Fprintf(w, "silence  %d\nalert    %s\nteam     %s\nuntil    %s\nby       %s\nreason   %s\n", s.ID, plain(s.Alert), plain(s.Team), formatTime(s.Until), plain(s.By), plain(s.Reason))
	})
}

type alertsUnsilenceCmd struct {
	listenerFlag
	Silence string `arg:"" help:"The silence's id, as list --silences shows it, or its alert, where that has one silence."`
	Team    string `help:"Of an alert: the silence of this team."`
	Reason  string `placeholder:"TEXT" help:"Why; kept with who said so and when."`
	DryRun  bool   `help:"Show it, and end nothing."`
}

func (c *alertsUnsilenceCmd) Run(e *env, client *api.Client) error {
	r := api.SilenceEnd{Reason: strings.TrimSpace(c.Reason), By: whoAmI()}
	if r.Reason == "" && !c.DryRun {
		return usageError("--reason is needed: it is kept with the silence")
	}
	silence, err := c.find(e, client)
	if err != nil {
		return err
	}
	if c.DryRun {
		fmt.Fprintln(e.Stderr, "dry run: nothing was ended")
		return printSilence(e, silence)
	}
	ended, err := client.EndSilence(e.ctx, silence.ID, r)
	if err != nil {
		return err
	}
	if err := printSilence(e, ended); err != nil {
		return err
	}
	fmt.Fprintln(e.Stderr, "silence ended: the alert is sent again while it fires")
	return nil
}

// find returns the one silence that the argument names: by its id, or by its alert and --team.
func (c *alertsUnsilenceCmd) find(e *env, client *api.Client) (*api.SilenceItem, error) {
	list, err := client.Alerts(e.ctx)
	if err != nil {
		return nil, err
	}
	var named []api.SilenceItem
	for _, s := range list.Silences {
		if silenceID(s) == c.Silence || s.Alert == c.Silence && (c.Team == "" || s.Team == c.Team) {
			named = append(named, s)
		}
	}
	switch len(named) {
	case 0:
		return nil, schemas.Errorf(schemas.NotFound, "", "no current silence has the id or the alert %s; `forebay alerts list --silences` lists them", c.Silence)
	case 1:
		return &named[0], nil
	}
	var ids []string
	for _, s := range named {
		ids = append(ids, silenceID(s))
	}
	return nil, usageError("%s has several silences: say which by its id: %s", c.Silence, strings.Join(ids, ", "))
}
