# Rights of Forebay in Kafka, by `forebay acls export --terraform`; for the provider Mongey/kafka.

resource "kafka_acl" "forebay-intake_topic_events_acme__Write" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_events_acme__DescribeConfigs" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "DescribeConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_quarantine_acme__Read" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_quarantine_acme__Write" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_quarantine_acme__DescribeConfigs" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "DescribeConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_events_events__Write" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_events_events__DescribeConfigs" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "DescribeConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_events_events__Read" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_quarantine_events__Read" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_quarantine_events__Write" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-intake_topic_quarantine_events__DescribeConfigs" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-intake"
  acl_host                     = "*"
  acl_operation                = "DescribeConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_events_acme__Read" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_events_acme__DescribeConfigs" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "DescribeConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_events_acme__Write" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_quarantine_acme__Read" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_dead_acme__Write" {
  resource_name                = "dead.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_group_acme__Read" {
  resource_name                = "acme."
  resource_type                = "Group"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_events_events__Read" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_events_events__DescribeConfigs" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "DescribeConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_events_events__Write" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_quarantine_events__Read" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_dead_events__Write" {
  resource_name                = "dead.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_group_events__Read" {
  resource_name                = "events."
  resource_type                = "Group"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_acme_enriched_Write" {
  resource_name                = "acme.enriched"
  resource_type                = "Topic"
  resource_pattern_type_filter = "Literal"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-stream_topic_shared_enriched_Write" {
  resource_name                = "shared.enriched"
  resource_type                = "Topic"
  resource_pattern_type_filter = "Literal"
  acl_principal                = "User:forebay-stream"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_events_acme__Create" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Create"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_events_acme__Describe" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_events_acme__AlterConfigs" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "AlterConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_quarantine_acme__Create" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Create"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_quarantine_acme__Describe" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_quarantine_acme__AlterConfigs" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "AlterConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_dead_acme__Create" {
  resource_name                = "dead.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Create"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_dead_acme__Describe" {
  resource_name                = "dead.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_dead_acme__AlterConfigs" {
  resource_name                = "dead.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "AlterConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_events_events__Create" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Create"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_events_events__Describe" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_events_events__AlterConfigs" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "AlterConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_quarantine_events__Create" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Create"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_quarantine_events__Describe" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_quarantine_events__AlterConfigs" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "AlterConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_dead_events__Create" {
  resource_name                = "dead.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Create"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_dead_events__Describe" {
  resource_name                = "dead.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-admin_topic_dead_events__AlterConfigs" {
  resource_name                = "dead.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-admin"
  acl_host                     = "*"
  acl_operation                = "AlterConfigs"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-rekey_topic_events_acme__Read" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-rekey"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-rekey_topic_events_acme__Write" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-rekey"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-rekey_group_acme__Describe" {
  resource_name                = "acme."
  resource_type                = "Group"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-rekey"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-rekey_topic_events_events__Read" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-rekey"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-rekey_topic_events_events__Write" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-rekey"
  acl_host                     = "*"
  acl_operation                = "Write"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-rekey_group_events__Describe" {
  resource_name                = "events."
  resource_type                = "Group"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-rekey"
  acl_host                     = "*"
  acl_operation                = "Describe"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-reading_topic_events_acme__Read" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-reading"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-reading_topic_quarantine_acme__Read" {
  resource_name                = "quarantine.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-reading"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-reading_topic_events_events__Read" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-reading"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "forebay-reading_topic_quarantine_events__Read" {
  resource_name                = "quarantine.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:forebay-reading"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-acme_topic_events_acme__Read" {
  resource_name                = "events.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:team-acme"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-acme_topic_dead_acme__Read" {
  resource_name                = "dead.acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:team-acme"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-acme_topic_acme__Read" {
  resource_name                = "acme."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:team-acme"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-acme_group_acme__Read" {
  resource_name                = "acme."
  resource_type                = "Group"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:team-acme"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-acme_topic_events_events_shared_Read" {
  resource_name                = "events.events.shared"
  resource_type                = "Topic"
  resource_pattern_type_filter = "Literal"
  acl_principal                = "User:team-acme"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-events_topic_events_events__Read" {
  resource_name                = "events.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:team-events"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-events_topic_dead_events__Read" {
  resource_name                = "dead.events."
  resource_type                = "Topic"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:team-events"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}

resource "kafka_acl" "team-events_group_events__Read" {
  resource_name                = "events."
  resource_type                = "Group"
  resource_pattern_type_filter = "Prefixed"
  acl_principal                = "User:team-events"
  acl_host                     = "*"
  acl_operation                = "Read"
  acl_permission_type          = "Allow"
}
