package rights

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Kafka returns the rights as commands of kafka-acls.sh, one for each principal and resource. notes are lines for whoever runs them.
func Kafka(list []Right, notes ...string) string {
	var b strings.Builder
	b.WriteString("#!/bin/sh\n# Rights of Forebay in Kafka, by `forebay acls export --kafka`.\n" +
		"# BOOTSTRAP: host:port of a broker; ADMIN: file with the properties of a client that may alter ACLs.\n" + comments(notes) + "set -eu\n")
	for _, e := range entries(list) {
		b.WriteString("kafka-acls.sh --bootstrap-server \"$BOOTSTRAP\" --command-config \"$ADMIN\" --add --allow-principal " + shell(e.principal))
		for _, o := range e.operations {
			b.WriteString(" --operation " + o)
		}
		b.WriteString(" --" + string(e.kind) + " " + shell(e.name) + " --resource-pattern-type " + pattern(e.prefixed, "prefixed", "literal") + "\n")
	}
	return b.String()
}

// Strimzi returns the rights as resources KafkaUser of the Strimzi operator, one for each principal. cluster is the name of the resource
// Kafka.
func Strimzi(list []Right, cluster string, notes ...string) string {
	var b strings.Builder
	b.WriteString("# Rights of Forebay in Kafka, by `forebay acls export --strimzi`.\n" + comments(notes))
	before := ""
	for _, e := range entries(list) {
		if e.principal != before {
			before = e.principal
			fmt.Fprintf(&b, "---\napiVersion: kafka.strimzi.io/v1\nkind: KafkaUser\nmetadata:\n  name: %s\n  labels:\n    strimzi.io/cluster: %s\n"+
				"spec:\n  authentication:\n    type: scram-sha-512\n  authorization:\n    type: simple\n    acls:\n", yamlText(user(e.principal)), yamlText(cluster))
		}
		fmt.Fprintf(&b, "      - resource:\n          type: %s\n          name: %s\n          patternType: %s\n        operations: [%s]\n",
			e.kind, yamlText(e.name), pattern(e.prefixed, "prefix", "literal"), strings.Join(e.operations, ", "))
	}
	return b.String()
}

// Terraform returns the rights as resources kafka_acl of the provider Mongey/kafka.
func Terraform(list []Right, notes ...string) string {
	var b strings.Builder
	b.WriteString("# Rights of Forebay in Kafka, by `forebay acls export --terraform`; for the provider Mongey/kafka.\n" + comments(notes))
	used := map[string]int{}
	for _, e := range entries(list) {
		for _, o := range e.operations {
			label := notInLabels.ReplaceAllString(strings.Join([]string{user(e.principal), string(e.kind), e.name, o}, "_"), "_")
			if used[label]++; used[label] > 1 {
				label += "_" + strconv.Itoa(used[label])
			}
			fmt.Fprintf(&b, "\nresource \"kafka_acl\" \"%s\" {\n  resource_name                = %s\n  resource_type                = \"%s\"\n"+
				"  resource_pattern_type_filter = \"%s\"\n  acl_principal                = %s\n  acl_host                     = \"*\"\n"+
				"  acl_operation                = \"%s\"\n  acl_permission_type          = \"Allow\"\n}\n", label, hcl(e.name),
				pattern(e.kind == Topic, "Topic", "Group"), pattern(e.prefixed, "Prefixed", "Literal"), hcl(e.principal), o)
		}
	}
	return b.String()
}

// comments returns lines of comment, as shell, YAML and Terraform have them. A note has no line break.
func comments(notes []string) (text string) {
	for _, note := range notes {
		text += "# NOTE: " + note + "\n"
	}
	return text
}

// notInLabels matches what names in Terraform may not have.
var notInLabels = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

func pattern(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// user returns a principal without its type.
func user(principal string) string { return strings.TrimPrefix(principal, "User:") }

var plainWord = regexp.MustCompile(`^[A-Za-z0-9._:/-]+$`)

// shell quotes a word for a shell.
func shell(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// yamlText quotes a text for YAML, whose double quotes take what JSON's take.
func yamlText(s string) string { return strconv.Quote(s) }

// hcl quotes a text for Terraform, in which ${ and %{ begin a template.
func hcl(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}
