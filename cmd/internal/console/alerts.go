package console

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// alertsPage is which alerts fire, and which silences there are.
type alertsPage struct {
	Firing, Pending int
	Items           []alertRow
	Off             bool // this process evaluates none of them
	Silences        []silenceRow
}

type alertRow struct {
	api.AlertItem
	Silence []link // to what silencing it would do; nil: who looks may not
}

// Of is what the alert is about, in words; empty if that is nothing now.
func (r alertRow) Of() string {
	var of []string
	for name, value := range r.Labels {
		of = append(of, name+" "+value)
	}
	slices.Sort(of)
	return strings.Join(of, ", ")
}

// Number is the value, rounded for reading.
func (r alertRow) Number() string {
	if r.Value == nil {
		return ""
	}
	v := *r.Value
	if math.Abs(v) >= 1 {
		v = math.Round(100*v) / 100
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// runbooks is where the pages of alerts are: the one place outside of this listener to which the console leads.
const runbooks = "https://github.com/forebay-io/forebay/blob/main/deploy/runbooks/"

// Runbook is where the page of the alert is; empty if that is not among the product's own.
func (r alertRow) Runbook() string {
	if !strings.HasPrefix(r.RunbookURL, runbooks) {
		return ""
	}
	return r.RunbookURL
}

type silenceRow struct {
	api.SilenceItem
	End string // link to what ending it would do; empty: who looks may not
}

type link struct{ Text, To string }

const alertsLink = "/console/alerts"

func silenceLink(alert, team string) string {
	at := alertsLink + "/" + url.PathEscape(alert) + "/silence"
	if team != "" {
		at += "?" + url.Values{"team": {team}}.Encode()
	}
	return at
}

func endLink(id int64) string { return alertsLink + "/silences/" + strconv.FormatInt(id, 10) + "/end" }

func (c *Console) alertList(ctx context.Context, r *http.Request) (any, error) {
	if err := onlyKnown(r); err != nil {
		return nil, err
	}
	found, err := c.API.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	p, who := &alertsPage{Off: true}, api.Asks(ctx)
	for i := range found.Items {
		row := alertRow{AlertItem: found.Items[i]}
		switch row.State {
		case api.AlertFiring:
			p.Firing++
		case api.AlertPending:
			p.Pending++
		}
		p.Off = p.Off && row.State == api.AlertOff
		if who.May(access.Respond) && c.Stream { // also of one that another process evaluates
			if row.Team != "" || who.All() {
				row.Silence = []link{{"Silence…", silenceLink(row.Alert, row.Team)}}
			} else {
				for _, team := range who.Teams {
					row.Silence = append(row.Silence, link{"Silence for " + team + "…", silenceLink(row.Alert, team)})
				}
			}
		}
		p.Items = append(p.Items, row)
	}
	for _, s := range found.Silences {
		row := silenceRow{SilenceItem: s}
		if who.May(access.Respond) && c.Stream && who.Of(s.Team) {
			row.End = endLink(s.ID)
		}
		p.Silences = append(p.Silences, row)
	}
	return p, nil
}

// silencePage is what silencing an alert would do, or ending a silence.
type silencePage struct {
	Alert   string
	Team    string            // empty: all teams
	Others  []api.SilenceItem // that the alert has already
	Silence *api.SilenceItem  // the one to end; nil: one is to be made
	Form    *form
}

// silences are for how long an alert can be silenced, in seconds.
var silences = []option{{"1800", "30 minutes"}, {"7200", "2 hours"}, {"28800", "8 hours"}, {"86400", "a day"}, {"604800", "a week"}}

// planSilence says what silencing an alert would do, and does nothing.
func (c *Console) planSilence(ctx context.Context, r *http.Request) (any, error) {
	if err := onlyKnown(r, "team"); err != nil {
		return nil, err
	}
	return c.silenceOf(ctx, r, submission{})
}

func (c *Console) silenceOf(ctx context.Context, r *http.Request, s submission) (*silencePage, error) {
	alert, team := r.PathValue("alert"), r.URL.Query().Get("team")
	if _, err := c.API.SilenceAlert(ctx, alert, api.SilenceRequest{Team: team, Seconds: 1800, By: "console", DryRun: true}); err != nil {
		return nil, err
	}
	p := &silencePage{Alert: alert, Team: team}
	var err error
	var newest int64
	if p.Others, newest, err = c.silencesOf(ctx, alert, team); err != nil {
		return nil, err
	}
	if p.Form = formFor(ctx, access.Respond, team, silenceLink(alert, team), "Silence "+alert, field{"after", strconv.FormatInt(newest, 10)}); p.Form != nil {
		p.Form.Reason, p.Form.By = s.Reason, s.Get("by")
		p.Form.Choice = &choice{Name: "seconds", Label: "For how long", Options: silences, Is: cmp.Or(s.Get("seconds"), "7200")}
	}
	return p, nil
}

// silencesOf returns the silences that an alert has for a team or for all, and the highest id of any.
func (c *Console) silencesOf(ctx context.Context, alert, team string) (list []api.SilenceItem, newest int64, err error) {
	found, err := c.API.Alerts(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, s := range found.Silences {
		if newest = max(newest, s.ID); s.Alert == alert && (s.Team == team || s.Team == "") {
			list = append(list, s)
		}
	}
	return list, newest, nil
}

// silence silences an alert, unless somebody has since the form was shown: who sends a form twice makes one silence.
func (c *Console) silence(ctx context.Context, r *http.Request) (any, error) {
	s, err := posted(r)
	if err != nil {
		return nil, err
	}
	if err = c.makeSilence(ctx, r.PathValue("alert"), r.URL.Query().Get("team"), s); err == nil {
		return seeOther(alertsLink), nil
	}
	if p, failed := c.silenceOf(ctx, r, s); failed == nil {
		return p, err
	}
	return nil, err
}

// makeSilence silences an alert for a team, unless somebody has done so since the form was shown: `after` is the highest id that the form knew.
func (c *Console) makeSilence(ctx context.Context, alert, team string, s submission) error {
	after, err := strconv.ParseInt(s.Get("after"), 10, 64)
	if err != nil {
		return schemas.Errorf(schemas.Invalid, "", "the form does not say which silences there were: begin with the alerts")
	}
	seconds, err := strconv.ParseInt(s.Get("seconds"), 10, 64)
	if err != nil {
		return schemas.Errorf(schemas.Invalid, "", "%q is not a number of seconds", s.Get("seconds"))
	}
	silences, _, err := c.silencesOf(ctx, alert, team) // also those for all teams
	if err != nil {
		return err
	}
	for _, old := range silences {
		if old.ID > after && old.Team == team {
			return schemas.Errorf(schemas.Conflict, "", "nothing was done: since this was shown, %s has silenced it until %s (%s)", old.By, old.Until.UTC().Format(time.RFC3339), old.Reason)
		}
	}
	_, err = c.API.SilenceAlert(ctx, alert, api.SilenceRequest{Team: team, Seconds: seconds, Reason: s.Reason, By: s.By})
	return err
}

// planEnd says what ending a silence would do, and does nothing.
func (c *Console) planEnd(ctx context.Context, r *http.Request) (any, error) {
	if err := onlyKnown(r); err != nil {
		return nil, err
	}
	return c.endOf(ctx, r, submission{})
}

func (c *Console) endOf(ctx context.Context, r *http.Request, s submission) (*silencePage, error) {
	found, err := c.API.Alerts(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found.Silences, func(o api.SilenceItem) bool { return strconv.FormatInt(o.ID, 10) == r.PathValue("silence") })
	if i < 0 {
		return nil, schemas.Errorf(schemas.NotFound, "", "there is no silence %s that has not ended, or not for you", r.PathValue("silence"))
	}
	p := &silencePage{Alert: found.Silences[i].Alert, Team: found.Silences[i].Team, Silence: &found.Silences[i]}
	if p.Form = formFor(ctx, access.Respond, p.Team, endLink(p.Silence.ID), fmt.Sprintf("End silence %d", p.Silence.ID)); p.Form != nil {
		p.Form.Reason, p.Form.By = s.Reason, s.Get("by")
	}
	return p, nil
}

// endSilence ends a silence, which is one for ever: who sends a form twice ends nothing twice.
func (c *Console) endSilence(ctx context.Context, r *http.Request) (any, error) {
	s, err := posted(r)
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseInt(r.PathValue("silence"), 10, 64)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, "", "%q is no id of a silence", r.PathValue("silence"))
	}
	if _, err = c.API.EndSilence(ctx, id, api.SilenceEnd{Reason: s.Reason, By: s.By}); err == nil {
		return seeOther(alertsLink), nil
	}
	if p, failed := c.endOf(ctx, r, s); failed == nil {
		return p, err
	}
	return nil, err
}
