"""Holds Kubernetes manifests to the schemas of their kinds, unknown fields too: manifests.py CRDS FILE...

Kinds of Kubernetes itself by kubernetes-validate; others by the CustomResourceDefinitions in the files that CRDS lists, one a line.
A kind without a schema is an error, unless it is named after --without.
"""
import sys

import jsonschema
import kubernetes_validate
import yaml

VERSION = "1.37"


def closed(schema):
    """Refuses fields that a schema does not know, as the API server's strict mode does."""
    if isinstance(schema, dict):
        schema = {key: closed(value) for key, value in schema.items()}
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        if schema.get("x-kubernetes-int-or-string"):
            schema = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        return schema
    return [closed(item) for item in schema] if isinstance(schema, list) else schema


def main(args):
    without = set()
    if "--without" in args:
        at = args.index("--without")
        without, args = set(args[at + 1].split(",")), args[:at] + args[at + 2 :]
    custom = {}
    for path in open(args[0], encoding="utf-8").read().split():
        for crd in yaml.safe_load_all(open(path, encoding="utf-8")):
            for version in crd["spec"]["versions"]:
                schema = closed(version["schema"]["openAPIV3Schema"])
                schema["properties"] |= {"apiVersion": {}, "kind": {}, "metadata": {}, "status": {}}
                custom[f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"]] = schema
    count = failed = 0
    for path in args[1:]:
        for doc in yaml.safe_load_all(open(path, encoding="utf-8")):
            if not doc:
                continue
            kind = doc["apiVersion"], doc["kind"]
            if kind[0].split("/")[0] in without:
                continue
            count += 1
            try:
                if kind in custom:
                    jsonschema.Draft7Validator(custom[kind]).validate(doc)
                else:
                    kubernetes_validate.validate(doc, VERSION, strict=True)
            except Exception as e:  # of three libraries
                failed += 1
                print(f"{path}: {doc['kind']} {doc['metadata']['name']}: {str(e).splitlines()[0] if str(e) else type(e).__name__}")
    print(f"{count} manifests held to their schemas, {failed} refused")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
