"""Commits the ends of TOPIC's partitions for the group GROUP, without becoming a member of it.

    commit.py BOOTSTRAP GROUP TOPIC
"""

import sys

from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

bootstrap, group, topic = sys.argv[1:]
consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic)]
consumer.assign(partitions)
ends = consumer.end_offsets(partitions)
consumer.commit({partition: OffsetAndMetadata(end, "", -1) for partition, end in ends.items()})
consumer.close()
