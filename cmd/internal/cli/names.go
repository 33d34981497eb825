package cli

import (
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

// scopeFlags narrow a list to names. The listener understands them, and refuses what names nothing: package names has the grammar.
type scopeFlags struct {
	Team         string `help:"Only this team."`
	Subscription string `help:"Only this subscription: TEAM.SUBSCRIPTION, or its name alone."`
	Source       string `help:"Only this source: TEAM/SOURCE, or its name alone."`
	Entity       string `help:"Only this entity, as the column shows it."`
	Type         string `help:"Only this event type, or a glob as in the file: com.github.issues.*"`
}

// Help is what kong prints below a command's summary.
func (scopeFlags) Help() string { return names.Help }

// subscriptionArg names a subscription: TEAM.SUBSCRIPTION, as its Kafka group is called, or its name alone.
type subscriptionArg struct {
	ID string `arg:"" name:"team.subscription" help:"The subscription, as -o id lists it."`
}

// names returns team and name. For a name alone it asks the listener which team has it.
func (a subscriptionArg) names(e *env, client *api.Client) (team, name string, err error) {
	return subscriptionNamed(e, client, a.ID)
}

// subscriptionNamed returns the subscription that text names. Without a team it is looked for among all; that several teams have one of that
// name is an error.
func subscriptionNamed(e *env, client *api.Client, text string) (team, name string, err error) {
	n, err := names.Subscription.Parse(text)
	if err != nil {
		return "", "", usageError("%w", err)
	}
	if n.Team == "" {
		page, err := client.Subscriptions(e.ctx)
		if err != nil {
			return "", "", err
		}
		var known []names.Name
		for _, i := range page.Items {
			known = append(known, names.Name{Team: i.Team, Name: i.Subscription})
		}
		if n, err = names.Subscription.Find(text, "", known); err != nil {
			return "", "", err
		}
	}
	return n.Team, n.Name, nil
}

// itemID names an event as [eventArg] reads it.
func itemID(i api.InboxItem) string { return api.EventName(&i).String() }

// placeID is the id of a record that has none of its own: PARTITION@OFFSET.
func placeID(i *api.InboxItem) string { return placeOf(i).ID() }

func placeText(i *api.InboxItem) string { return placeOf(i).String() }

func placeOf(i *api.InboxItem) names.Place {
	return names.Place{Topic: i.Topic, Partition: i.Partition, Offset: i.Offset}
}

// sourceText is an event's source as lists print it.
func sourceText(team, source string) string {
	if source == "" || strings.HasPrefix(source, "/") { // of another team: as its events carry it
		return strings.TrimPrefix(source, "/")
	}
	return names.Source.Print(names.Name{Team: team, Name: source})
}

// eventArg names an event: TEAM/SUBSCRIPTION/SOURCE/EVENT, where the event's id may contain slashes, and may be cut off; or by the id of
// one of its actions. A record that is no event to the subscription is named TEAM/SUBSCRIPTION/TOPIC/PARTITION@OFFSET.
type eventArg struct {
	ID string `arg:"" name:"team/subscription/source/event" help:"The event, as -o id lists it, or an action of it (act_...); the id may be cut off."`
}

func (eventArg) Help() string { return names.Help }
