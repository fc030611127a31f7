"""Messages of the Container Storage Interface made from csi-spec.txt, the published numbers.

    pb.CreateVolumeRequest(name=…)     a message; pb.VolumeCapability.AccessMode(mode="…")
    SERVICES                           service -> its methods
    TABLE, ENUMS                       message -> field -> (number, type); enum -> value -> number
"""
import os
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2

TABLE, ENUMS, SERVICES = {}, {}, {}
OTHERS = {"BoolValue": wrappers_pb2, "Int64Value": wrappers_pb2, "Timestamp": timestamp_pb2}


def read_table():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "csi-spec.txt"), encoding="ascii") as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    for words in lines:
        if words[0] == "service":
            SERVICES[words[1]] = words[2:]
        elif words[0] == "enum":
            ENUMS[words[1]] = {name: int(number) for name, number in (w.split("=") for w in words[2:])}
        else:
            fields = (w.replace(":", "=").split("=") for w in words[1:])
            TABLE[words[0]] = {name: (int(number), kind) for name, number, kind in fields}


def full_name(message, kind):
    if kind in OTHERS:
        return f".google.protobuf.{kind}"
    return f".csi.v1.{message}{kind}" if kind.startswith(".") else f".csi.v1.{kind}"


def add_map(m, message, field, f):
    entry = m.nested_type.add(name="".join(part.title() for part in field.split("_")) + "Entry")
    entry.options.map_entry = True
    for number, name in ((1, "key"), (2, "value")):
        entry.field.add(name=name, number=number, type=f.TYPE_STRING, label=f.LABEL_OPTIONAL)
    f.type, f.label, f.type_name = f.TYPE_MESSAGE, f.LABEL_REPEATED, f".csi.v1.{message}.{entry.name}"


def add_field(m, message, field, number, kind):
    f = m.field.add(name=field, number=number)
    kind, _, oneof = kind.partition("|")
    f.label = f.LABEL_REPEATED if kind.startswith("*") else f.LABEL_OPTIONAL
    kind = kind.lstrip("*")
    if oneof:
        names = [o.name for o in m.oneof_decl]
        if oneof not in names:
            m.oneof_decl.add(name=oneof)
            names.append(oneof)
        f.oneof_index = names.index(oneof)
    if kind == "map":
        add_map(m, message, field, f)
    elif kind in ("string", "bool", "int32", "int64"):
        f.type = getattr(f, "TYPE_" + kind.upper())
    else:
        f.type_name = full_name(message, kind)
        f.type = f.TYPE_ENUM if f.type_name[len(".csi.v1."):] in ENUMS else f.TYPE_MESSAGE


def make_file():
    file = descriptor_pb2.FileDescriptorProto(name="csi-as-published.proto", package="csi.v1", syntax="proto3",
                                              dependency=sorted({o.DESCRIPTOR.name for o in OTHERS.values()}))
    made = {}
    for message, fields in TABLE.items():
        outer, _, name = message.rpartition(".")
        m = made[message] = (made[outer].nested_type if outer else file.message_type).add(name=name)
        for field, (number, kind) in fields.items():
            add_field(m, message, field, number, kind)
    for enum, values in ENUMS.items():
        outer, _, name = enum.rpartition(".")
        e = (made[outer] if outer else file).enum_type.add(name=name)
        for value, number in values.items():
            e.value.add(name=value, number=number)
    return file


class Messages:
    """A class for each message that stands by itself."""

    def __init__(self):
        read_table()
        pool = descriptor_pool.DescriptorPool()
        for other in set(OTHERS.values()):
            pool.AddSerializedFile(other.DESCRIPTOR.serialized_pb)
        pool.Add(make_file())
        for name in TABLE:
            if "." not in name:
                setattr(self, name, message_factory.GetMessageClass(pool.FindMessageTypeByName(f"csi.v1.{name}")))


pb = Messages()
