"""Reads COUNT records of TOPICS as the group GROUP and commits: a consumer of a team's own, with nothing of Forebay's.

    consumer.py BOOTSTRAP GROUP COUNT TOPIC...

Prints one JSON object a record; bytes are in base64, so that nothing of them is lost.
"""

import base64
import json
import sys

from kafka import KafkaConsumer

bootstrap, group, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
consumer = KafkaConsumer(
    *sys.argv[4:],
    bootstrap_servers=bootstrap,
    group_id=group,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    isolation_level="read_committed",
)


def text(b):
    return base64.b64encode(b).decode()


for _ in range(count):
    record = next(consumer)
    print(json.dumps({
        "key": text(record.key),
        "value": text(record.value),
        "headers": {name: text(value) for name, value in record.headers},
    }))
consumer.commit()
consumer.close()
