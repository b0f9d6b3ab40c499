#!/usr/bin/env python3
"""Checks LLM request bodies against the providers' own request types.

Reads one JSON object per line on stdin:

    {"name": "...", "format": "anthropic", "request": {...}}

and writes one verdict per line on stdout, in the same order:

    {"name": "...", "format": "anthropic", "ok": false, "errors": ["rule: path: why"]}

The formats are `anthropic`, `openai-chat`, `openai-responses`,
`openai-completions` and `gemini`. With `"continues": true` the last message may
be the model's.
The exit status is 0 whenever the check could run, whatever the verdicts say.

Two layers:

* `<format>.types`: the request types of the client libraries, made strict. The
  libraries declare TypedDicts with lazy `Iterable`s and open keys, so their
  annotations are translated into schemas in which every list is walked and
  every unknown key is an error. The path of such an error also names the
  branches taken in unions (`content.array.0.tool_use.input`).
* `<format>.<rule>`: what the servers refuse with status 400 although the types
  allow it, such as a tool call without a result.
"""

import base64
import binascii
import collections.abc
import enum
import json
import os
import re
import sys
import types as python_types
import typing
import warnings

try:
    import pydantic
    import typing_extensions
    from anthropic.types import message_create_params as anthropic_params
    from google.genai import models as gemini_models
    from google.genai import types as gemini_types
    from openai.types import completion_create_params as completion_params
    from openai.types.chat import completion_create_params as chat_params
    from openai.types.responses import response_create_params as responses_params
    from pydantic_core import SchemaValidator, core_schema
except ImportError as missing:
    print(f"validate.py: a client library is missing: {missing}", file=sys.stderr)
    sys.exit(2)


class Findings:
    """The errors of one request."""

    def __init__(self, request_format):
        self.request_format = request_format
        self.errors = []

    def add(self, rule, path, message):
        self.errors.append(f"{self.request_format}.{rule}: {path}: {message}")


# --- Strict schemas from the libraries' TypedDicts ---------------------------

ABSENT = "<absent>"

# A body is JSON, so these members of a union can never be meant: file handles
# and paths are read by the library before it sends, and response models are
# accepted only to hand an answer back as an object of the library. Response
# models tolerate unknown keys, so leaving them in would let everything pass.
def never_in_json(annotation):
    origin = typing.get_origin(annotation) or annotation
    if origin in (bytes, bytearray):
        return True
    return isinstance(origin, type) and (
        issubclass(origin, (typing.IO, os.PathLike, pydantic.BaseModel))
    )


def json_kind(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    return "object"


def unwrap(annotation):
    """Takes off `Annotated`, `Required` and `NotRequired`; tells of `Required`."""
    required = False
    optional = False
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            if any(getattr(extra, "alias", None) for extra in annotation.__metadata__):
                raise TypeError(f"an alias is not supported: {annotation}")
            annotation = annotation.__origin__
        elif origin in (typing_extensions.Required, typing.Required):
            required = True
            (annotation,) = typing.get_args(annotation)
        elif origin in (typing_extensions.NotRequired, typing.NotRequired):
            optional = True
            (annotation,) = typing.get_args(annotation)
        else:
            return annotation, required, optional


class StrictTypes:
    """Translates annotations into schemas that walk everything.

    An annotation it does not know is an error at start, never a silent pass.
    """

    def __init__(self):
        self.definitions = {}
        self.fields = {}

    def validator(self, typed_dict, without=()):
        root = self.typed_dict(typed_dict, without)
        schema = core_schema.definitions_schema(root, list(self.definitions.values()))
        return SchemaValidator(schema)

    def fields_of(self, typed_dict):
        if typed_dict not in self.fields:
            hints = typing_extensions.get_type_hints(typed_dict, include_extras=True)
            fields = {}
            for key, hint in hints.items():
                annotation, required, optional = unwrap(hint)
                # The annotations are strings, in which `Required` is not seen
                # when the class is made; `__required_keys__` alone is too short.
                required = required or (
                    key in typed_dict.__required_keys__ and not optional
                )
                fields[key] = (annotation, required)
            self.fields[typed_dict] = fields
        return self.fields[typed_dict]

    def typed_dict(self, typed_dict, without=()):
        name = f"{typed_dict.__module__}.{typed_dict.__qualname__}"
        if name not in self.definitions:
            # Types refer to themselves, so the name is taken before the fields
            # are translated.
            self.definitions[name] = None
            config = getattr(typed_dict, "__pydantic_config__", {})
            self.definitions[name] = core_schema.typed_dict_schema(
                {
                    key: core_schema.typed_dict_field(
                        self.schema(annotation), required=required
                    )
                    for key, (annotation, required) in self.fields_of(
                        typed_dict
                    ).items()
                    if key not in without
                },
                extra_behavior="allow" if config.get("extra") == "allow" else "forbid",
                ref=name,
            )
        return core_schema.definition_reference_schema(name)

    def schema(self, annotation):
        annotation, _, _ = unwrap(annotation)
        origin = typing.get_origin(annotation)
        arguments = typing.get_args(annotation)
        if annotation in (object, typing.Any):
            return core_schema.any_schema()
        if annotation in (None, type(None)):
            return core_schema.none_schema()
        if annotation is str:
            return core_schema.str_schema()
        if annotation is bool:
            return core_schema.bool_schema()
        if annotation is int:
            return core_schema.int_schema()
        if annotation is float:
            return core_schema.float_schema()
        if origin in (typing.Literal, typing_extensions.Literal):
            return core_schema.literal_schema(list(arguments))
        if origin in (typing.Union, python_types.UnionType):
            return self.union(annotation)
        if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
            return core_schema.list_schema(self.schema(arguments[0]))
        if origin in (dict, collections.abc.Mapping):
            return core_schema.dict_schema(
                self.schema(arguments[0]), self.schema(arguments[1])
            )
        if typing_extensions.is_typeddict(annotation):
            return self.typed_dict(annotation)
        raise TypeError(f"no strict schema for {annotation!r}")

    def members(self, union):
        for member in typing.get_args(union):
            member, _, _ = unwrap(member)
            if typing.get_origin(member) in (typing.Union, python_types.UnionType):
                yield from self.members(member)
            elif not never_in_json(member):
                yield member

    def kind_of(self, annotation):
        origin = typing.get_origin(annotation)
        if annotation in (None, type(None)):
            return "null"
        if annotation is str:
            return "string"
        if annotation is bool:
            return "bool"
        if annotation in (int, float):
            return "number"
        if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
            return "array"
        if origin in (typing.Literal, typing_extensions.Literal):
            kinds = {json_kind(value) for value in typing.get_args(annotation)}
            if len(kinds) == 1:
                return kinds.pop()
        if origin in (dict, collections.abc.Mapping):
            return "object"
        if typing_extensions.is_typeddict(annotation):
            return "object"
        raise TypeError(f"no kind of JSON for {annotation!r}")

    def union(self, union):
        """Branches by the kind of JSON, then by tag: errors name one branch only.

        A plain union would report the failures of each of its members, thirty
        for an item of the Responses API, and bury the one that matters.
        """
        members = list(dict.fromkeys(self.members(union)))
        if any(member in (object, typing.Any) for member in members):
            return core_schema.any_schema()
        by_kind = {}
        for member in members:
            by_kind.setdefault(self.kind_of(member), []).append(member)
        choices = {
            kind: self.objects(group, ("type", "role"))
            if kind == "object"
            else self.any_of(group)
            for kind, group in by_kind.items()
        }
        if len(choices) == 1:
            return next(iter(choices.values()))
        return core_schema.tagged_union_schema(choices, json_kind)

    def any_of(self, members):
        if len(members) == 1:
            return self.schema(members[0])
        return core_schema.union_schema(
            [
                (self.schema(member), getattr(member, "__name__", str(member)))
                for member in members
            ]
        )

    def tags(self, member, key):
        """The values `key` may have in `member`, or None when it is no tag."""
        if not typing_extensions.is_typeddict(member):
            return None
        annotation, required = self.fields_of(member).get(key, (None, False))
        values = set() if required else {ABSENT}
        parts = (
            self.members(annotation)
            if typing.get_origin(annotation) is typing.Union
            else [annotation]
        )
        for part in parts:
            if typing.get_origin(part) in (typing.Literal, typing_extensions.Literal):
                values.update(str(value) for value in typing.get_args(part))
            elif part is type(None):
                values.add(str(None))
            else:
                return None
        return values

    def objects(self, members, keys):
        if len(members) == 1 or not keys:
            return self.any_of(members)
        key, later_keys = keys[0], keys[1:]
        tags = [self.tags(member, key) for member in members]
        if any(values is None for values in tags):
            return self.objects(members, later_keys)
        by_tag = {}
        for member, values in zip(members, tags):
            for value in values:
                by_tag.setdefault(value, []).append(member)
        choices = {
            value: self.objects(group, later_keys) for value, group in by_tag.items()
        }

        def tag_of(value):
            return str(value.get(key, ABSENT)) if isinstance(value, dict) else ABSENT

        return core_schema.tagged_union_schema(
            choices,
            tag_of,
            custom_error_type="wrong_tag",
            custom_error_message=f"`{key}` is none of: {', '.join(sorted(choices))}",
        )


class TypedDictCheck:
    """One endpoint's request type: streaming and not are two types."""

    def __init__(self, whole, streaming, without=()):
        self.whole = StrictTypes().validator(whole, without)
        self.streaming = StrictTypes().validator(streaming, without)

    def __call__(self, request, findings):
        validator = self.streaming if request.get("stream") is True else self.whole
        try:
            # Said here and not in the schema's configuration, which does not
            # reach the definitions inside it.
            validator.validate_python(request, strict=True)
        except pydantic.ValidationError as error:
            add_type_errors(error, "", findings)


def add_type_errors(error, prefix, findings):
    for detail in error.errors(include_url=False, include_input=False):
        path = ".".join([prefix, *map(str, detail["loc"])]).strip(".")
        findings.add("types", path or "request", detail["msg"])


# --- Gemini's types -----------------------------------------------------------

GEMINI_BODY = {
    "contents": list[gemini_types.Content],
    "systemInstruction": gemini_types.Content,
    "tools": list[gemini_types.Tool],
    "toolConfig": gemini_types.ToolConfig,
    "generationConfig": gemini_types.GenerationConfig,
    "safetySettings": list[gemini_types.SafetySetting],
    "cachedContent": str,
    "serviceTier": gemini_types.ServiceTier,
    "store": bool,
}

# The library refuses a field of the other platform while it converts a request
# for the Developer API; these are the converters it uses.
GEMINI_CONVERTERS = {
    "contents": gemini_models._Content_to_mldev,
    "systemInstruction": gemini_models._Content_to_mldev,
    "tools": gemini_models._Tool_to_mldev,
    "toolConfig": gemini_models._ToolConfig_to_mldev,
    "safetySettings": gemini_models._SafetySetting_to_mldev,
}

# The library converts its own flat configuration, not the body's, so the
# fields it refuses there are listed.
GEMINI_OTHER_PLATFORM_CONFIG = ("audioTimestamp", "modelSelectionConfig", "routingConfig")


class GeminiCheck:
    def __init__(self):
        self.adapters = {
            key: pydantic.TypeAdapter(annotation)
            for key, annotation in GEMINI_BODY.items()
        }

    def __call__(self, request, findings):
        if "contents" not in request:
            findings.add("types", "contents", "Field required")
        for key, value in request.items():
            adapter = self.adapters.get(key)
            if adapter is None:
                findings.add("types", key, "Extra inputs are not permitted")
                continue
            if value is None:
                findings.add("types", key, "Input should not be null")
                continue
            try:
                # As JSON, because strictness about Python values would ask for
                # bytes and enum members instead of base64 and names.
                parsed = adapter.validate_json(json.dumps(value), strict=True)
            except pydantic.ValidationError as error:
                add_type_errors(error, key, findings)
                continue
            except AttributeError as error:
                # The library's enums fail so on a value that is no string.
                findings.add("types", key, f"an enum's value is no string: {error}")
                continue
            self.check_names(parsed, value, key, findings)
            self.check_platform(key, parsed, findings)
        config = request.get("generationConfig")
        for key in GEMINI_OTHER_PLATFORM_CONFIG:
            if isinstance(config, dict) and key in config:
                findings.add(
                    "developer_api", f"generationConfig.{key}", "not in this API"
                )

    def check_names(self, parsed, raw, path, findings):
        """Finds what the models forgive.

        That is snake_case keys, unknown enum values, and, below a part, values
        that can be converted: a part is made by a constructor of its own, which
        does not hand the strictness on.
        """
        if isinstance(parsed, pydantic.BaseModel) and isinstance(raw, dict):
            fields = {
                field.alias or name: name
                for name, field in type(parsed).model_fields.items()
            }
            for key, value in raw.items():
                if key not in fields:
                    findings.add("types", f"{path}.{key}", "the key is not camelCase")
                    continue
                self.check_names(
                    getattr(parsed, fields[key]), value, f"{path}.{key}", findings
                )
        elif isinstance(parsed, list) and isinstance(raw, list):
            for index, (item, value) in enumerate(zip(parsed, raw)):
                self.check_names(item, value, f"{path}.{index}", findings)
        elif isinstance(parsed, dict) and isinstance(raw, dict):
            for key, value in raw.items():
                self.check_names(parsed.get(key), value, f"{path}.{key}", findings)
        elif isinstance(parsed, enum.Enum):
            if parsed.name not in type(parsed).__members__:
                findings.add("types", path, f"{raw!r} is no {type(parsed).__name__}")
        elif json_kind("" if isinstance(parsed, bytes) else parsed) != json_kind(raw):
            findings.add("types", path, f"Input should be a valid {json_kind(parsed)}")

    def check_platform(self, key, parsed, findings):
        convert = GEMINI_CONVERTERS.get(key)
        if convert is None:
            return
        for item in parsed if isinstance(parsed, list) else [parsed]:
            try:
                convert(item)
            except ValueError as error:
                findings.add("developer_api", key, str(error))


# --- What the rules share -----------------------------------------------------

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
DATA_URL = re.compile(r"data:([a-zA-Z0-9.+-]+/[a-zA-Z0-9.+-]+);base64,(.*)", re.DOTALL)

# The servers count characters; newer models of Chat Completions take 64, older
# ones took 40.
OPENAI_MAX_CALL_ID = 64


def listed(value):
    """The objects in `value` with their places; the types complain of the rest."""
    if isinstance(value, list):
        return [(i, item) for i, item in enumerate(value) if isinstance(item, dict)]
    return []


def matches(pattern, value):
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def is_blank(value):
    return isinstance(value, str) and not value.strip()


def decodes(data):
    if not isinstance(data, str) or not data:
        return False
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def duplicates(values):
    seen = set()
    for value in values:
        if isinstance(value, str):
            if value in seen:
                yield value
            seen.add(value)


def check_tool_names(names, pattern, findings):
    for path, name in names:
        if not matches(pattern, name):
            findings.add("tool_name", path, f"{name!r} is not {pattern.pattern}")
    for name in duplicates(name for _, name in names):
        findings.add("tool_name_unique", "tools", f"{name!r} is defined twice")


# --- Anthropic ----------------------------------------------------------------

THINKING = ("thinking", "redacted_thinking")


def anthropic_blocks(content):
    """The content blocks, and in a string's place the block it stands for."""
    if isinstance(content, str):
        return [(0, {"type": "text", "text": content})]
    return listed(content)


def anthropic_rules(request, findings):
    messages = listed(request.get("messages"))
    if not messages:
        findings.add("messages_not_empty", "messages", "there is no message")
    limit = request.get("max_tokens")
    if isinstance(limit, int) and limit < 1:
        findings.add("max_tokens", "max_tokens", f"{limit} is less than 1")
    anthropic_thinking_config(request, findings)
    anthropic_roles(messages, findings)
    anthropic_tools(request, findings)
    anthropic_tool_pairs(messages, findings)

    marks = []
    for i, tool in listed(request.get("tools")):
        collect_mark(tool, f"tools.{i}", marks)
    for i, block in anthropic_blocks(request.get("system")):
        anthropic_block(block, f"system.{i}", marks, findings)
    for i, message in messages:
        path = f"messages.{i}.content"
        blocks = anthropic_blocks(message.get("content"))
        if not blocks:
            findings.add("content_not_empty", path, "there is no content block")
        for j, block in blocks:
            anthropic_block(block, f"{path}.{j}", marks, findings)
        if message.get("role") == "assistant":
            anthropic_thinking_first(blocks, path, findings)
    # Behind the rest, since it stands for a mark on the last block.
    collect_mark(request, "request", marks)
    if len(marks) > 4:
        findings.add("cache_marks", "request", f"{len(marks)} marks, 4 are allowed")
    short_lived = None
    for path, mark in marks:
        if mark.get("ttl") != "1h":
            short_lived = path
        elif short_lived:
            findings.add(
                "cache_ttl_order", path, f"1h behind the shorter mark of {short_lived}"
            )


def collect_mark(block, path, marks):
    if isinstance(block.get("cache_control"), dict):
        marks.append((path, block["cache_control"]))


def anthropic_roles(messages, findings):
    if not messages:
        return
    for i, message in messages:
        if message.get("role") not in ("user", "assistant"):
            findings.add(
                "roles", f"messages.{i}.role", f"{message.get('role')!r} is no speaker"
            )
    if messages[0][1].get("role") != "user":
        findings.add("user_first", "messages.0.role", "the first message is the user's")
    for (_, before), (i, message) in zip(messages, messages[1:]):
        if before.get("role") == message.get("role"):
            findings.add(
                "alternation", f"messages.{i}.role", "the same role speaks twice"
            )
    last, message = messages[-1]
    if message.get("role") != "user":
        findings.add("user_last", f"messages.{last}.role", "the last is not the user's")
    if message.get("role") == "assistant":
        blocks = anthropic_blocks(message.get("content"))
        text = blocks[-1][1].get("text") if blocks else None
        if isinstance(text, str) and text != text.rstrip():
            findings.add(
                "trailing_whitespace", f"messages.{last}", "the prefill ends in space"
            )


def anthropic_thinking_config(request, findings):
    config = request.get("thinking")
    if not isinstance(config, dict) or config.get("type") != "enabled":
        return
    budget, limit = config.get("budget_tokens"), request.get("max_tokens")
    if isinstance(budget, int) and budget < 1024:
        findings.add("thinking_budget", "thinking.budget_tokens", "less than 1024")
    if isinstance(budget, int) and isinstance(limit, int) and budget >= limit:
        findings.add("thinking_budget", "thinking.budget_tokens", "not below max_tokens")


def anthropic_tools(request, findings):
    tools = listed(request.get("tools"))
    check_tool_names(
        [(f"tools.{i}.name", tool.get("name")) for i, tool in tools],
        TOOL_NAME,
        findings,
    )
    for i, tool in tools:
        schema = tool.get("input_schema")
        if isinstance(schema, dict) and schema.get("type") != "object":
            findings.add(
                "input_schema_object", f"tools.{i}.input_schema", "type is not object"
            )


def anthropic_tool_pairs(messages, findings):
    ids = []
    open_calls = []
    for i, message in messages:
        path = f"messages.{i}.content"
        blocks = anthropic_blocks(message.get("content"))
        role = message.get("role")
        calls = [b.get("id") for _, b in blocks if b.get("type") == "tool_use"]
        results = [
            b.get("tool_use_id") for _, b in blocks if b.get("type") == "tool_result"
        ]
        if role != "assistant" and calls:
            findings.add("tool_use_role", path, "tool_use is not the assistant's")
        if role != "user" and results:
            findings.add("tool_result_role", path, "tool_result is not the user's")
        for call in open_calls:
            if call not in results:
                findings.add("tool_use_answered", path, f"no tool_result for {call!r}")
        for result in results:
            if result not in open_calls:
                findings.add("tool_result_called", path, f"no tool_use for {result!r}")
        for result in duplicates(results):
            findings.add("tool_ids_unique", path, f"{result!r} is answered twice")
        other_seen = False
        for j, block in blocks:
            if block.get("type") != "tool_result":
                other_seen = True
            elif other_seen:
                findings.add(
                    "tool_results_first", f"{path}.{j}", "behind another block"
                )
        for j, block in blocks:
            if block.get("type") != "tool_use":
                continue
            if not matches(ANTHROPIC_ID, block.get("id")):
                findings.add(
                    "tool_use_id",
                    f"{path}.{j}.id",
                    f"{block.get('id')!r} is not {ANTHROPIC_ID.pattern}",
                )
            if not matches(TOOL_NAME, block.get("name")):
                findings.add(
                    "tool_name",
                    f"{path}.{j}.name",
                    f"{block.get('name')!r} is not {TOOL_NAME.pattern}",
                )
        ids.extend(calls)
        open_calls = calls if role == "assistant" else []
    for call in open_calls:
        findings.add("tool_use_answered", "messages", f"no tool_result for {call!r}")
    for call in duplicates(ids):
        findings.add("tool_ids_unique", "messages", f"{call!r} is used twice")


def anthropic_thinking_first(blocks, path, findings):
    other_seen = False
    for j, block in blocks:
        if block.get("type") not in THINKING:
            other_seen = True
        elif other_seen:
            findings.add("thinking_first", f"{path}.{j}", "behind another block")


def anthropic_block(block, path, marks, findings):
    kind = block.get("type")
    collect_mark(block, path, marks)
    marked = isinstance(block.get("cache_control"), dict)
    if marked and kind in THINKING:
        findings.add("cache_on_thinking", path, "thinking cannot be marked")
    if kind == "text" and is_blank(block.get("text")):
        findings.add("no_blank_text", path, "the text is blank")
        if marked:
            findings.add("cache_on_empty_text", path, "empty text cannot be marked")
    if kind == "thinking" and not block.get("signature"):
        findings.add("thinking_signature", path, "the signature is empty")
    if kind in ("image", "document"):
        anthropic_source(kind, block.get("source"), path, marks, findings)
    if kind == "tool_result":
        inner = block.get("content")
        # An empty string is a result of a tool that printed nothing; as a block
        # of text it would be refused.
        blocks = listed(inner)
        for j, item in blocks:
            anthropic_block(item, f"{path}.content.{j}", marks, findings)
        if block.get("is_error") is True:
            if not inner:
                findings.add("error_result_not_empty", path, "an error says nothing")
            if any(item.get("type") != "text" for _, item in blocks):
                findings.add("error_result_text_only", path, "an error is text only")


def anthropic_source(kind, source, path, marks, findings):
    if not isinstance(source, dict):
        return
    path = f"{path}.source"
    if source.get("type") == "base64":
        allowed = IMAGE_TYPES if kind == "image" else ("application/pdf",)
        if source.get("media_type") not in allowed:
            findings.add(
                "media_type", path, f"{source.get('media_type')!r} is not allowed"
            )
        if not decodes(source.get("data")):
            findings.add("media_data", path, "data is not base64")
    if source.get("type") == "text" and is_blank(source.get("data")):
        findings.add("no_blank_text", path, "the document is blank")
    if source.get("type") == "content":
        for j, item in anthropic_blocks(source.get("content")):
            anthropic_block(item, f"{path}.content.{j}", marks, findings)


# --- OpenAI, both APIs --------------------------------------------------------


def openai_arguments(arguments, path, findings):
    if not isinstance(arguments, str):
        return
    try:
        parsed = json.loads(arguments)
    except ValueError:
        findings.add("arguments_json", path, "is not JSON")
        return
    if not isinstance(parsed, dict):
        findings.add("arguments_json", path, "is not a JSON object")


def openai_call_id(call_id, path, findings):
    if not isinstance(call_id, str) or not call_id:
        findings.add("call_id", path, "is empty")
    elif len(call_id) > OPENAI_MAX_CALL_ID:
        findings.add(
            "call_id", path, f"{len(call_id)} characters, over {OPENAI_MAX_CALL_ID}"
        )


def openai_function(function, path, findings):
    parameters = function.get("parameters")
    if not isinstance(parameters, dict):
        return
    if parameters.get("type") != "object":
        findings.add("parameters_object", f"{path}.parameters", "type is not object")
    if function.get("strict") is True:
        openai_strict_schema(parameters, f"{path}.parameters", findings)


def openai_strict_schema(schema, path, findings):
    """With `strict`, each object closes its keys and requires all of them."""
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    if schema.get("type") == "object" or properties:
        if schema.get("additionalProperties") is not False:
            findings.add("strict_schema", path, "additionalProperties is not false")
        required = schema.get("required")
        if set(properties) - set(required if isinstance(required, list) else []):
            findings.add("strict_schema", path, "not every property is required")
    definitions = schema.get("$defs")
    for name, inner in [
        *properties.items(),
        *(definitions.items() if isinstance(definitions, dict) else ()),
    ]:
        openai_strict_schema(inner, f"{path}.{name}", findings)
    openai_strict_schema(schema.get("items"), f"{path}.items", findings)
    for j, inner in listed(schema.get("anyOf")):
        openai_strict_schema(inner, f"{path}.anyOf.{j}", findings)


def openai_image_url(url, path, findings):
    if not isinstance(url, str):
        return
    if url.startswith("data:"):
        data = DATA_URL.fullmatch(url)
        if not data or not decodes(data.group(2)):
            findings.add("media_data", path, "is no base64 data URL")
        elif data.group(1) not in IMAGE_TYPES:
            findings.add("media_type", path, f"{data.group(1)!r} is not allowed")
    elif not url.startswith(("https://", "http://")):
        findings.add("media_data", path, "is neither a web address nor a data URL")


def openai_file(file, path, findings):
    data = file.get("file_data")
    if data is not None:
        found = DATA_URL.fullmatch(data) if isinstance(data, str) else None
        if not found or not decodes(found.group(2)):
            findings.add("media_data", f"{path}.file_data", "is no base64 data URL")
        if not file.get("filename"):
            findings.add("file_name", path, "file_data comes without a filename")
    elif not file.get("file_id") and not file.get("file_url"):
        findings.add("media_data", path, "the file has no content")


def openai_audio(part, path, findings):
    audio = part.get("input_audio")
    if isinstance(audio, dict) and not decodes(audio.get("data")):
        findings.add("media_data", f"{path}.input_audio", "data is not base64")


# --- OpenAI Chat Completions --------------------------------------------------

CHAT_ROLES = ("system", "developer", "user", "assistant", "tool")
CHAT_USER_PARTS = ("image_url", "input_audio", "file")


def chat_rules(request, findings):
    messages = listed(request.get("messages"))
    if not messages:
        findings.add("messages_not_empty", "messages", "there is no message")
    chat_tools(request, findings)
    chat_tool_pairs(messages, findings)
    for i, message in messages:
        chat_message(message, f"messages.{i}", findings)


def chat_tools(request, findings):
    tools = request.get("tools")
    if tools == []:
        findings.add("array_not_empty", "tools", "leave it out instead")
    functions = [
        (f"tools.{i}.function", tool["function"])
        for i, tool in listed(tools)
        if isinstance(tool.get("function"), dict)
    ]
    check_tool_names(
        [(f"{path}.name", function.get("name")) for path, function in functions],
        TOOL_NAME,
        findings,
    )
    for path, function in functions:
        openai_function(function, path, findings)


def chat_tool_pairs(messages, findings):
    ids = []
    open_calls = []
    answered = set()

    def close(path):
        for call in open_calls:
            if call not in answered:
                findings.add("tool_calls_answered", path, f"no answer to {call!r}")

    for i, message in messages:
        path = f"messages.{i}"
        if message.get("role") == "tool":
            call = message.get("tool_call_id")
            if call not in open_calls:
                findings.add("tool_message_called", path, f"no call {call!r} before it")
            elif call in answered:
                findings.add("tool_ids_unique", path, f"{call!r} is answered twice")
            answered.add(str(call))
            continue
        close(path)
        calls = listed(message.get("tool_calls"))
        open_calls = [call.get("id") for _, call in calls]
        answered = set()
        ids.extend(open_calls)
    close("messages")
    for call in duplicates(ids):
        findings.add("tool_ids_unique", "messages", f"{call!r} is used twice")


def chat_message(message, path, findings):
    role = message.get("role")
    content = message.get("content")
    calls = message.get("tool_calls")
    if role not in CHAT_ROLES:
        findings.add("roles", f"{path}.role", f"{role!r} is no role")
    if calls == []:
        findings.add("array_not_empty", f"{path}.tool_calls", "leave it out instead")
    if role == "assistant":
        says_something = content or calls or message.get("refusal")
        if not says_something and not message.get("audio"):
            findings.add("assistant_says_something", path, "no content and no calls")
    # A tool may print nothing; anything else that is said has to say something.
    elif role != "tool" and (not content or is_blank(content)):
        findings.add("content_not_empty", f"{path}.content", "is empty")
    for j, part in listed(content):
        part_path = f"{path}.content.{j}"
        kind = part.get("type")
        if kind in CHAT_USER_PARTS and role != "user":
            findings.add("media_role", part_path, f"{kind} belongs to the user")
        if kind == "text" and not part.get("text") and role != "tool":
            findings.add("content_not_empty", part_path, "the text is empty")
        if kind == "image_url" and isinstance(part.get("image_url"), dict):
            openai_image_url(part["image_url"].get("url"), part_path, findings)
        if kind == "file" and isinstance(part.get("file"), dict):
            openai_file(part["file"], part_path, findings)
        if kind == "input_audio":
            openai_audio(part, part_path, findings)
    for j, call in listed(calls):
        call_path = f"{path}.tool_calls.{j}"
        openai_call_id(call.get("id"), f"{call_path}.id", findings)
        function = call.get("function")
        if not isinstance(function, dict):
            continue
        if not matches(TOOL_NAME, function.get("name")):
            findings.add(
                "tool_name",
                f"{call_path}.function.name",
                f"{function.get('name')!r} is not {TOOL_NAME.pattern}",
            )
        openai_arguments(
            function.get("arguments"), f"{call_path}.function.arguments", findings
        )


# --- OpenAI Responses ---------------------------------------------------------


def responses_rules(request, findings):
    # The type leaves both out, for requests that name a stored prompt.
    if not request.get("model"):
        findings.add("model", "model", "there is no model")
    given = request.get("input")
    items = listed(given)
    if not given or is_blank(given):
        findings.add("input_not_empty", "input", "there is no input")
    responses_tools(request, findings)
    responses_tool_pairs(items, findings)
    for i, item in items:
        if "role" in item and item.get("type", "message") == "message":
            responses_message(item, f"input.{i}", findings)
        if item.get("type") == "function_call":
            if not matches(TOOL_NAME, item.get("name")):
                findings.add(
                    "tool_name",
                    f"input.{i}.name",
                    f"{item.get('name')!r} is not {TOOL_NAME.pattern}",
                )
            openai_arguments(item.get("arguments"), f"input.{i}.arguments", findings)
        if item.get("type") == "function_call_output":
            for j, part in listed(item.get("output")):
                responses_part(part, f"input.{i}.output.{j}", False, findings)


def responses_tools(request, findings):
    functions = [
        (f"tools.{i}", tool)
        for i, tool in listed(request.get("tools"))
        if tool.get("type") == "function"
    ]
    for path, tool in functions:
        if "function" in tool:
            findings.add(
                "flat_function_tool", path, "name and parameters stand in the tool"
            )
        openai_function(tool, path, findings)
    check_tool_names(
        [(f"{path}.name", tool.get("name")) for path, tool in functions],
        TOOL_NAME,
        findings,
    )


def responses_tool_pairs(items, findings):
    calls = {}
    answered = set()
    for i, item in items:
        kind = item.get("type")
        if kind not in ("function_call", "function_call_output"):
            continue
        path = f"input.{i}.call_id"
        call_id = item.get("call_id")
        openai_call_id(call_id, path, findings)
        if not isinstance(call_id, str):
            continue
        if kind == "function_call":
            if call_id in calls:
                findings.add("call_ids_unique", path, f"{call_id!r} is used twice")
            calls[call_id] = path
        elif call_id not in calls:
            findings.add("output_called", path, f"no call {call_id!r} before it")
        elif call_id in answered:
            findings.add("call_ids_unique", path, f"{call_id!r} is answered twice")
        else:
            answered.add(call_id)
    for call_id, path in calls.items():
        if call_id not in answered:
            findings.add("call_answered", path, f"no output for {call_id!r}")


def responses_message(item, path, findings):
    content = item.get("content")
    if not content or is_blank(content):
        findings.add("content_not_empty", f"{path}.content", "is empty")
    for j, part in listed(content):
        by_assistant = item.get("role") == "assistant"
        responses_part(part, f"{path}.content.{j}", by_assistant, findings)


def responses_part(part, path, by_assistant, findings):
    kind = part.get("type")
    if not isinstance(kind, str):
        return
    if by_assistant and kind.startswith("input_"):
        findings.add("part_direction", path, f"{kind} in the assistant's message")
    if not by_assistant and kind in ("output_text", "refusal"):
        findings.add("part_direction", path, f"{kind} outside the assistant's message")
    if kind in ("input_text", "output_text") and not part.get("text"):
        findings.add("content_not_empty", path, "the text is empty")
    if kind == "input_image":
        if part.get("image_url") is None and part.get("file_id") is None:
            findings.add("media_data", path, "the image has no content")
        openai_image_url(part.get("image_url"), path, findings)
    if kind == "input_file":
        openai_file(part, path, findings)


# --- Gemini -------------------------------------------------------------------

GEMINI_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)


def gemini_rules(request, findings):
    contents = listed(request.get("contents"))
    if not contents:
        findings.add("contents_not_empty", "contents", "there is no content")
    else:
        gemini_roles(contents, findings)
    gemini_tools(request, findings)
    gemini_tool_pairs(contents, findings)
    for i, content in contents:
        gemini_parts(content, f"contents.{i}", findings)
    system = request.get("systemInstruction")
    if isinstance(system, dict):
        gemini_parts(system, "systemInstruction", findings)
        for j, part in listed(system.get("parts")):
            if "text" not in part:
                findings.add(
                    "system_text_only", f"systemInstruction.parts.{j}", "is not text"
                )


def gemini_roles(contents, findings):
    for i, content in contents:
        if content.get("role") not in ("user", "model"):
            findings.add(
                "roles", f"contents.{i}.role", f"{content.get('role')!r} is no speaker"
            )
    if contents[0][1].get("role") != "user":
        findings.add("user_first", "contents.0.role", "the first content is the user's")
    for (_, before), (i, content) in zip(contents, contents[1:]):
        if before.get("role") == content.get("role"):
            findings.add(
                "alternation", f"contents.{i}.role", "the same role speaks twice"
            )
    last, content = contents[-1]
    if content.get("role") != "user":
        findings.add("user_last", f"contents.{last}.role", "the last is not the user's")


def gemini_tools(request, findings):
    names = []
    for i, tool in listed(request.get("tools")):
        for j, function in listed(tool.get("functionDeclarations")):
            path = f"tools.{i}.functionDeclarations.{j}"
            names.append((f"{path}.name", function.get("name")))
            if "parameters" in function and "parametersJsonSchema" in function:
                findings.add("one_schema", path, "parameters are described twice")
    check_tool_names(names, GEMINI_NAME, findings)


def gemini_tool_pairs(contents, findings):
    open_calls = []
    ids = []
    for i, content in contents:
        path = f"contents.{i}"
        parts = [part for _, part in listed(content.get("parts"))]
        calls = gemini_functions(parts, "functionCall")
        responses = gemini_functions(parts, "functionResponse")
        role = content.get("role")
        if calls and role != "model":
            findings.add("function_call_role", path, "functionCall is the model's")
        if responses and role != "user":
            findings.add("function_response_role", path, "functionResponse is the user's")
        gemini_match(open_calls, responses, path, findings)
        ids.extend(call.get("id") for call in calls)
        open_calls = calls if role == "model" else []
    gemini_match(open_calls, [], "contents", findings)
    for call_id in duplicates(ids):
        findings.add("call_ids_unique", "contents", f"{call_id!r} is used twice")


def gemini_functions(parts, key):
    return [part[key] for part in parts if isinstance(part.get(key), dict)]


def gemini_match(calls, responses, path, findings):
    """Pairs each call with one response: by its id where it has one, else by name."""
    left = list(responses)
    for call in sorted(calls, key=lambda call: call.get("id") is None):
        for response in left:
            same_name = response.get("name") == call.get("name")
            if same_name and response.get("id") == call.get("id"):
                left.remove(response)
                break
        else:
            findings.add(
                "function_call_answered",
                path,
                f"no functionResponse for {call.get('name')!r}, id {call.get('id')!r}",
            )
    for response in left:
        findings.add(
            "function_response_called",
            path,
            f"no functionCall for {response.get('name')!r}, id {response.get('id')!r}",
        )


def gemini_parts(content, path, findings):
    parts = listed(content.get("parts"))
    if not parts:
        findings.add("parts_not_empty", path, "there is no part")
    for j, part in parts:
        part_path = f"{path}.parts.{j}"
        data = [key for key in GEMINI_DATA if part.get(key) is not None]
        if len(data) != 1:
            findings.add("one_data", part_path, f"has {data}, exactly one is allowed")
        if part.get("text") == "":
            findings.add("no_empty_text", part_path, "the text is empty")
        gemini_media(part, part_path, findings)
        for key in ("functionCall", "functionResponse"):
            function = part.get(key)
            if isinstance(function, dict):
                if not matches(GEMINI_NAME, function.get("name")):
                    findings.add(
                        "tool_name",
                        f"{part_path}.{key}.name",
                        f"{function.get('name')!r} is not {GEMINI_NAME.pattern}",
                    )
        response = part.get("functionResponse")
        if isinstance(response, dict):
            if not isinstance(response.get("response"), dict):
                findings.add(
                    "response_object", f"{part_path}.functionResponse", "is no object"
                )
            for k, inner in listed(response.get("parts")):
                inner_path = f"{part_path}.functionResponse.parts.{k}"
                gemini_media(inner, inner_path, findings)


def gemini_media(part, path, findings):
    inline = part.get("inlineData")
    if isinstance(inline, dict):
        if not decodes(inline.get("data")):
            findings.add("media_data", f"{path}.inlineData", "data is not base64")
        if not inline.get("mimeType"):
            findings.add("media_type", f"{path}.inlineData", "there is no mimeType")
    file = part.get("fileData")
    if isinstance(file, dict) and not file.get("fileUri"):
        findings.add("media_data", f"{path}.fileData", "there is no fileUri")


# --- OpenAI's older completions -----------------------------------------------


def completion_rules(request, findings):
    prompt = request.get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        findings.add("prompt_not_blank", "prompt", "there is nothing to continue")


# --- The run ------------------------------------------------------------------


def build_checks():
    return {
        "anthropic": (
            TypedDictCheck(
                anthropic_params.MessageCreateParamsNonStreaming,
                anthropic_params.MessageCreateParamsStreaming,
                # The library sends these two as headers; in the body they are
                # unknown keys.
                without=("user_profile_id", "workspace_id"),
            ),
            anthropic_rules,
        ),
        "openai-chat": (
            TypedDictCheck(
                chat_params.CompletionCreateParamsNonStreaming,
                chat_params.CompletionCreateParamsStreaming,
            ),
            chat_rules,
        ),
        "openai-responses": (
            TypedDictCheck(
                responses_params.ResponseCreateParamsNonStreaming,
                responses_params.ResponseCreateParamsStreaming,
            ),
            responses_rules,
        ),
        "openai-completions": (
            TypedDictCheck(
                completion_params.CompletionCreateParamsNonStreaming,
                completion_params.CompletionCreateParamsStreaming,
            ),
            completion_rules,
        ),
        "gemini": (GeminiCheck(), gemini_rules),
    }


def check(checks, request_format, request):
    """Returns the errors of one request, each with the name of its rule."""
    if request_format not in checks:
        return [f"input.format: format: {request_format!r} is no format"]
    if not isinstance(request, dict):
        return [f"{request_format}.types: request: Input should be an object"]
    check_types, check_rules = checks[request_format]
    findings = Findings(request_format)
    check_types(request, findings)
    well_typed = not findings.errors
    try:
        check_rules(request, findings)
    except Exception as error:
        # Of a request with wrong types nothing more can be said; with right
        # types it is a fault of a rule and must not look like a pass.
        if well_typed:
            findings.add("internal", "request", f"a rule failed: {error!r}")
    return findings.errors


def check_line(checks, line):
    try:
        case = json.loads(line)
    except ValueError as error:
        return {
            "name": None,
            "format": None,
            "ok": False,
            "errors": [f"input.json: line: {error}"],
        }
    if not isinstance(case, dict):
        case = {}
    errors = check(checks, case.get("format"), case.get("request"))
    if case.get("continues") is True:
        errors = [error for error in errors if ".user_last: " not in error]
    return {
        "name": case.get("name"),
        "format": case.get("format"),
        "ok": not errors,
        "errors": errors,
    }


def main():
    # Unknown enum values are found by `check_names`; the library's warnings
    # about them would only fill stderr.
    warnings.simplefilter("ignore")
    checks = build_checks()
    for line in sys.stdin.buffer:
        if line.strip():
            print(json.dumps(check_line(checks, line)))


if __name__ == "__main__":
    main()
