"""Compares csi/csi.proto with the specification's published numbers (csi-spec.txt); says each difference."""
import re
import sys

from csi_spec import ENUMS, SERVICES, TABLE

# Standing for google.protobuf's, an entry of a map, a member of a oneof with nothing in it.
WELL_KNOWN = {"BoolValue": {"value": (1, "bool")}, "Timestamp": {"seconds": (1, "int64"), "nanos": (2, "int32")},
              "Pair": {"key": (1, "string"), "value": (2, "string")}, "Nothing": {}}


def read_proto(path):
    """message -> field -> (number, type), enum -> value -> number, methods."""
    messages, enums, methods, scope = {}, {}, [], []
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"//[^\n]*", "", f.read())
    for token in re.finditer(r"\b(message|enum|service)\s+(\w+)\s*\{|\brpc\s+(\w+)[^{]*\{\}|(repeated\s+)?([\w.]+)\s+(\w+)\s*=\s*(\d+);"
                             r"|(\w+)\s*=\s*(\d+);|(\})", text):
        kind, name, method, repeated, of_type, field, number, value, value_number, end = token.groups()
        if kind:
            scope.append(name)
            {"message": messages, "enum": enums, "service": {}}[kind].setdefault(".".join(scope), {})
        elif method:
            methods.append(f"{scope[-1]}/{method}")
        elif field:
            messages[".".join(scope)][field] = (int(number), ("*" if repeated else "") + of_type)
        elif value:
            enums[".".join(scope)][value] = int(value_number)
        elif end:
            scope.pop()
    return messages, enums, methods


def wire(kind, enums):
    """What of a type can be seen in bytes."""
    star, kind = kind.startswith("*"), kind.lstrip("*").partition("|")[0].rpartition(".")[2]
    if kind == "map":
        return "repeated message"
    if any(e.rpartition(".")[2] == kind for e in enums):
        kind = "int"
    elif kind not in ("string", "bool", "int32", "int64"):
        kind = "message"
    return ("repeated " if star else "") + kind


def differences(path):
    messages, enums, methods = read_proto(path)
    for message, fields in messages.items():
        theirs = WELL_KNOWN.get(message) or TABLE.get(message)
        if message == "VolumeHealth.Entry":
            theirs = TABLE["VolumeHealth.VolumeHealthEntry"]
        if theirs is None and message not in WELL_KNOWN:
            yield f"{message}: no such message"
            continue
        for field, (number, kind) in fields.items():
            want = (theirs or {}).get(field)
            if not want or want[0] != number or wire(want[1], ENUMS) != wire(kind, enums):
                yield f"{message}.{field} = {number} ({kind}): published is {want}"
    known = {name: number for values in ENUMS.values() for name, number in values.items()}
    for enum, values in enums.items():
        theirs = ENUMS.get(enum)
        for name, number in values.items():
            if (theirs or known).get(name, 0 if number == 0 else None) != number:
                yield f"{enum}.{name} = {number}: published is {(theirs or known).get(name)}"
    for method in methods:
        service, _, name = method.partition("/")
        if name not in SERVICES.get(service, ()):
            yield f"{method}: no such method"
    print(f"{len(messages)} messages, {sum(map(len, messages.values()))} fields, {len(methods)} methods")


found = list(differences(sys.argv[1]))
if found:
    sys.exit("\n".join(found))
