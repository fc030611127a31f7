#!/usr/bin/env python3
"""schemas.py OPENAPI FOLDER: what an API server says of its kinds (/openapi/v2), as schemas that kubeconform reads.

A file a kind and version, FOLDER/GROUP-KIND-VERSION.json in lower case, that needs no other. Members that
a kind does not know are an error, as with kubectl's --validate=strict.
"""
import json
import sys
from pathlib import Path

# Written as a text or as a number; OpenAPI 2 has no word for that.
LOOSE = {"io.k8s.apimachinery.pkg.util.intstr.IntOrString": ["string", "integer"],
         "io.k8s.apimachinery.pkg.api.resource.Quantity": ["string", "number"]}


def strict(schema):
    """The schema with all that is unknown an error."""
    if not isinstance(schema, dict):
        return schema
    made = {k: v for k, v in schema.items() if k in ("type", "enum", "required", "$ref", "pattern", "minimum", "maximum")}
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = LOOSE["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]
    if "properties" in schema:
        made["properties"] = {k: strict(v) for k, v in schema["properties"].items()}
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    elif "additionalProperties" in schema:
        made["additionalProperties"] = strict(schema["additionalProperties"])
    if "items" in schema:
        made["items"] = strict(schema["items"])
    return made


def named(schema, found):
    """The definitions that it leads to, into `found`."""
    if isinstance(schema, dict):
        ref = schema.get("$ref", "")
        name = ref.removeprefix("#/definitions/") if isinstance(ref, str) else ""
        if name and name not in found:
            found.add(name)
            named(definitions[name], found)
        for value in schema.values():
            named(value, found)


openapi, folder = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])
definitions = {name: {"type": LOOSE[name]} if name in LOOSE else strict(schema) for name, schema in openapi["definitions"].items()}
folder.mkdir(parents=True, exist_ok=True)
for name, schema in openapi["definitions"].items():
    for is_of in schema.get("x-kubernetes-group-version-kind", []):  # kubeconform: GROUP of "v1" is "v1"
        needed = {name}
        named(definitions[name], needed)
        file = f"{is_of['group'] or is_of['version']}-{is_of['kind']}-{is_of['version']}.json".lower()
        text = {"$ref": f"#/definitions/{name}", "definitions": {n: definitions[n] for n in sorted(needed)}}
        (folder / file).write_text(json.dumps(text), encoding="utf-8")
