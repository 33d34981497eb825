package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

type quarantineListCmd struct {
	listenerFlag
	Team   string `help:"Only this team."`
	Source string `help:"Only this source."`
	Limit  int    `default:"50" help:"Most deliveries, 1 to 1000."`
}

func (c *quarantineListCmd) Run(e *env, client *api.Client) error {
	page, err := client.Quarantined(e.ctx, api.QuarantineFilter{Team: c.Team, Source: c.Source, Limit: c.Limit})
	if err != nil {
		return err
	}
	type item = api.QuarantineItem
	return printList(e, page, quarantineID,
		column[item]{name: "received", value: func(i item) string { return formatTime(i.ReceivedAt) }},
		column[item]{name: "source", value: func(i item) string { return i.Team + "/" + i.Source }},
		column[item]{name: "kind", value: func(i item) string { return i.Kind }},
		column[item]{name: "reason", value: func(i item) string { return i.Reason }},
		column[item]{name: "detail", value: func(i item) string { return i.Detail }},
		column[item]{name: "bytes", value: func(i item) string { return strconv.Itoa(i.Bytes) }},
		column[item]{name: "place", value: quarantineID})
}

// quarantineID returns the id of a quarantined delivery, which is its place: topic, partition and offset.
func quarantineID(i api.QuarantineItem) string {
	return fmt.Sprintf("%s/%d@%d", i.Topic, i.Partition, i.Offset)
}

// quarantinePlace parses the id of a quarantined delivery, as quarantineID writes it: quarantine.TEAM.SOURCE/PARTITION@OFFSET.
func quarantinePlace(id string) (p api.QuarantinePlace, err error) {
	topic, place, _ := strings.Cut(id, "/")
	partitionText, offsetText, _ := strings.Cut(place, "@")
	parts := strings.Split(topic, ".")
	partition, errPartition := strconv.ParseInt(partitionText, 10, 32)
	offset, errOffset := strconv.ParseInt(offsetText, 10, 64)
	if errPartition != nil || errOffset != nil || len(parts) != 3 || parts[0] != "quarantine" {
		return p, usageError("%q is not quarantine.TEAM.SOURCE/PARTITION@OFFSET; `forebay quarantine list -o id` lists them", id)
	}
	return api.QuarantinePlace{Team: parts[1], Source: parts[2], Partition: int32(partition), Offset: offset}, nil
}

type quarantineRawCmd struct {
	listenerFlag
	ID string `arg:"" name:"place" help:"The delivery, as quarantine list shows its place."`
}

func (c *quarantineRawCmd) Run(e *env, client *api.Client) error {
	p, err := quarantinePlace(c.ID)
	if err != nil {
		return err
	}
	body, err := client.QuarantinedBody(e.ctx, p)
	if err == nil {
		_, err = e.Stdout.Write(body)
	}
	return err
}

type quarantineRedriveCmd struct {
	listenerFlag
	IDs    []string `arg:"" name:"place" help:"The deliveries, as quarantine list -o id lists them."`
	Reason string   `placeholder:"TEXT" help:"Why; logged with who said so."`
	DryRun bool     `help:"Say what events they are by now and do nothing."`
}

// Run redrives the deliveries in the order in which they came.
func (c *quarantineRedriveCmd) Run(e *env, client *api.Client) error {
	req := api.QuarantineRedrive{Reason: strings.TrimSpace(c.Reason), By: whoAmI(), DryRun: c.DryRun}
	if req.Reason == "" && !req.DryRun {
		return usageError("--reason is needed: it is logged with what is redriven (--dry-run shows what that is)")
	}
	var places []api.QuarantinePlace
	for _, id := range c.IDs {
		p, err := quarantinePlace(id)
		if err != nil {
			return err
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b api.QuarantinePlace) int { // in the order of the log; lists show the newest first
		return cmp.Or(cmp.Compare(a.Team, b.Team), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	b := &bulk[api.QuarantineRedriven]{env: e, dryRun: c.DryRun, named: true}
	for _, p := range places {
		name := fmt.Sprintf("quarantine.%s.%s/%d@%d", p.Team, p.Source, p.Partition, p.Offset)
		b.requests = append(b.requests, request[api.QuarantineRedriven]{name: name, do: func(bool) (*api.QuarantineRedriven, string, error) {
			item, err := client.RedriveQuarantined(e.ctx, p, req)
			if err != nil {
				return nil, "", err
			}
			return item, item.State, nil
		}})
	}
	type item = api.QuarantineRedriven
	return b.run(func(i item) string { return quarantineID(i.QuarantineItem) },
		column[item]{name: "place", value: func(i item) string { return quarantineID(i.QuarantineItem) }},
		column[item]{name: "was", value: func(i item) string { return i.Reason }},
		column[item]{name: "state", value: func(i item) string { return i.State }},
		column[item]{name: "type", value: func(i item) string { return i.Type }},
		column[item]{name: "entity", value: func(i item) string { return i.Entity }},
		column[item]{name: "event", value: func(i item) string { return i.EventID }},
		column[item]{name: "to", value: func(i item) string {
			if i.To == nil {
				return ""
			}
			return fmt.Sprintf("%s/%d@%d", i.To.Topic, i.To.Partition, i.To.Offset)
		}})
}
