#!/bin/sh
# Rights of Forebay in Kafka, by `forebay acls export --kafka`.
# BOOTSTRAP: host:port of a broker; ADMIN: file with the properties of a client that may alter ACLs.
set -eu
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-intake --operation Write --operation DescribeConfigs --topic events.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-intake --operation Read --operation Write --operation DescribeConfigs --topic quarantine.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-intake --operation Write --operation DescribeConfigs --operation Read --topic events.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-intake --operation Read --operation Write --operation DescribeConfigs --topic quarantine.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Read --operation DescribeConfigs --operation Write --topic events.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Read --topic quarantine.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Write --topic dead.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Read --group acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Read --operation DescribeConfigs --operation Write --topic events.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Read --topic quarantine.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Write --topic dead.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Read --group events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Write --topic acme.enriched --resource-pattern-type literal
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-stream --operation Write --topic shared.enriched --resource-pattern-type literal
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-admin --operation Create --operation Describe --operation AlterConfigs --topic events.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-admin --operation Create --operation Describe --operation AlterConfigs --topic quarantine.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-admin --operation Create --operation Describe --operation AlterConfigs --topic dead.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-admin --operation Create --operation Describe --operation AlterConfigs --topic events.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-admin --operation Create --operation Describe --operation AlterConfigs --topic quarantine.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-admin --operation Create --operation Describe --operation AlterConfigs --topic dead.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-rekey --operation Read --operation Write --topic events.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-rekey --operation Describe --group acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-rekey --operation Read --operation Write --topic events.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-rekey --operation Describe --group events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-reading --operation Read --topic events.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-reading --operation Read --topic quarantine.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-reading --operation Read --topic events.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:forebay-reading --operation Read --topic quarantine.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-acme --operation Read --topic events.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-acme --operation Read --topic dead.acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-acme --operation Read --topic acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-acme --operation Read --group acme. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-acme --operation Read --topic events.events.shared --resource-pattern-type literal
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-events --operation Read --topic events.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-events --operation Read --topic dead.events. --resource-pattern-type prefixed
kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$ADMIN" --add --allow-principal User:team-events --operation Read --group events. --resource-pattern-type prefixed
