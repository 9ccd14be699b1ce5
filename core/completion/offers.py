"""What the home offers for each kind of word: devices, tools, runs and the others, from its service."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from core.completion import batch_inputs
from core.completion.kinds import Kind
from core.completion.paths import path_offers
from core.completion.position import Position, Table
from core.completion.schema_values import argument_offers, value_offers, written
from core.completion.term_words import term_offers
from core.completion.words import Offer, is_plain, short_help
from core.filter_words import as_filter, is_filter

if TYPE_CHECKING:
    from core.completion.service_calls import ServiceCalls

# Seconds for all calls to the service together.
WITHIN = 0.2
_MOST_RUNS = 100
_AGES = ("10m", "1h", "8h", "1d", "7d")
# The healths of a device that takes commands.
_HERE = ("online", "busy")
_FILTER_QUOTES = "\"'"
_QUERY_QUOTES = '"'


class Offers:
    """Finds the words that may stand at a position; connects to the service where they are the home's."""

    def __init__(self, position: Position, table: Table) -> None:
        self._at = position
        self._table = table
        self._service: ServiceCalls | None = None
        self._is_silent = False

    def __enter__(self) -> Offers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._service is not None:
            with contextlib.suppress(OSError):
                self._service.close()

    def found(self) -> list[Offer]:
        """The words that begin as typed, each in full, with what precedes it in its word.

        A text of a device or a person that cannot be shown as it is is left out. Nothing is found where no
        service answers, or a file cannot be read.
        """
        at = self._at
        try:
            offers = at.offers or list(_BY_KIND.get(at.kind, _nothing)(self))
        except (OSError, ValueError):
            return []
        return [
            Offer(at.before + one.text, one.help, one.is_open, one.is_path)
            for one in offers
            if one.text.startswith(at.typed) and is_plain(one.text)
        ]

    def _call(self, method: str, **arguments: Any) -> Any:
        """A call to the service.

        Raises:
            OSError: no service answers.
        """
        if self._is_silent:
            raise OSError("The service did not answer before.")
        # Imported here: what the command line itself offers needs no socket.
        from core.completion.service_calls import ServiceCalls
        from core.home_folder import home_folder
        from core.service.rpc.own_file import NotOwn

        try:
            if self._service is None:
                self._service = ServiceCalls(home_folder(self._at.home), WITHIN)
            return self._service.call(method, **arguments)
        except (OSError, NotOwn) as error:
            # One wait is enough: a second call would make the shell wait again.
            self._is_silent = True
            raise OSError("The service does not answer.") from error

    def _devices(self, begun: str = "") -> list[dict[str, Any]]:
        """The devices whose names begin so; a thousand of them are more than a moment can carry."""
        quote = "'" if '"' in begun else '"'
        narrowed = f"name:{quote}{begun}{quote}*" if begun and quote not in begun else ""
        return list(self._call("match_devices", targets=narrowed))

    def _runs(self) -> list[dict[str, Any]]:
        return list(self._call("runs", limit=_MOST_RUNS))

    def _run(self) -> dict[str, Any]:
        """The run that was named before; empty if it is not among the latest."""
        wanted = self._at.first(Kind.RUN)
        return next((run for run in self._runs() if run["id"] == wanted), {})

    def devices(self) -> Iterator[Offer]:
        """Devices; where a run was named, its own."""
        if self._at.first(Kind.RUN):
            return map(Offer, self._run().get("devices", ()))
        return (
            Offer(one["name"], short_help(one["health"], *one["tags"], "production" * one["production"]))
            for one in self._devices(self._at.typed)
        )

    def targets(self) -> list[Offer]:
        """Devices that begin so; where none does, and something is typed, the words of a filter."""
        with contextlib.suppress(OSError):
            if devices := [one for one in self.devices() if one.text.startswith(self._at.typed)]:
                return devices
        return self.device_filter() if self._at.typed else []

    def _tools(self) -> list[dict[str, Any]]:
        """The tools of the device that was named, or of the first that matches."""
        named = self._at.first(Kind.DEVICE) or self._at.first(Kind.TARGET)
        if is_filter(named):
            devices = self._call("match_devices", targets=as_filter(named))
            named = next((one["name"] for one in devices if one["health"] in _HERE), "")
        return list(self._call("tools", device=named))

    def tools(self) -> Iterator[Offer]:
        """The tools of the device that was named."""
        for tool in sorted(self._tools(), key=lambda tool: str(tool["tool_name"])):
            what = tool.get("title") or str(tool.get("description", "")).partition("\n")[0]
            yield Offer(tool["tool_name"], short_help(what))

    def tool_arguments(self) -> Iterable[Offer]:
        """Arguments of the tool that was named, or values of the one that is typed."""
        wanted = self._at.first(Kind.TOOL)
        tools = [tool for tool in self._tools() if wanted in (tool["tool_name"], tool["tool_key"])]
        schema = tools[0]["input_schema"] if tools else {}
        used = {_key(word) for word in self._at.given.get(Kind.TOOL_ARGUMENT, ())}
        return self._key_value(
            lambda: argument_offers(schema, used),
            lambda key, as_json: value_offers(schema, key, as_json),
        )

    def _key_value(
        self, keys: Callable[[], Iterable[Offer]], values: Callable[[str, bool], Iterable[Offer]]
    ) -> Iterable[Offer]:
        """`key=value`: the keys until there is a `=`, then values, or files behind `=@`."""
        name, sign, value = self._at.typed.partition("=")
        if not sign:
            return keys()
        written_so_far = name + sign
        if value.startswith("@"):
            return [_behind(f"{written_so_far}@", one) for one in path_offers(value[1:])]
        found = values(_key(self._at.typed), name.endswith(":"))
        return [_behind(written_so_far, one) for one in found]

    def runs(self) -> Iterator[Offer]:
        """The latest runs, newest first."""
        for run in self._runs():
            yield Offer(run["id"], short_help(run["name"], run["state"], run["started_at"][:16]))

    def steps(self) -> Iterator[Offer]:
        """The steps of the run that was named."""
        return map(Offer, self._run().get("steps", ()))

    def batches(self) -> Iterator[Offer]:
        """Batch files, and the batches saved in the home."""
        if "/" not in self._at.typed:
            # Without a service there are still files.
            with contextlib.suppress(OSError):
                for name in self._call("batches"):
                    if not batch_inputs.is_file(name):
                        yield Offer(name, "saved batch")
        yield from path_offers(self._at.typed, batch_inputs.ENDINGS)

    def _inputs(self) -> dict[str, Any]:
        """The inputs of the batch or run that was named."""
        if run := self._at.first(Kind.RUN):
            return dict(self._call("run", run=run)["batch"].get("inputs", {}))
        batch = self._at.first(Kind.BATCH)
        if batch_inputs.is_file(batch):
            return batch_inputs.inputs_in(batch)
        return dict(self._call("load_batch", name=batch).get("inputs", {}))

    def input_names(self) -> Iterator[Offer]:
        """The names of the inputs."""
        return (Offer(name, _input_help(one)) for name, one in self._inputs().items())

    def inputs(self) -> Iterable[Offer]:
        """`name=` of each input, or the values of the one that is typed. A secret one comes from a file."""
        inputs = self._inputs()
        used = {_key(word) for word in self._at.given.get(Kind.INPUT, ())}
        return self._key_value(
            lambda: [
                Offer(f"{name}{_sign(one)}", _input_help(one), is_open=True)
                for name, one in inputs.items()
                if name not in used
            ],
            lambda key, as_json: map(Offer, _input_values(inputs.get(key), as_json)),
        )

    def approvals(self) -> Iterator[Offer]:
        """The requests that wait for an operator."""
        for one in self._call("approvals"):
            what = f"{one['decision']['risk']}: {one['request']['tool_name']} on {one['request']['device']},"
            yield Offer(one["id"], short_help(what, one["actor"]))

    def grants(self) -> Iterator[Offer]:
        """The grants in force."""
        for one in self._call("grants"):
            if not one.get("over"):
                yield Offer(one["terms"]["id"], short_help(*one["words"][:2]))

    def grant_terms(self) -> Iterator[Offer]:
        """The terms of a grant."""
        yield Offer("uses=", "how many times", is_open=True)
        yield Offer("until=", "a time, or from now: 30m, 8h, 7d", is_open=True)

    def operators(self) -> Iterator[Offer]:
        """The operators of the home."""
        return (Offer(one["name"]) for one in self._call("state")["operators"])

    def agents(self) -> Iterator[Offer]:
        """The agents of the home."""
        for one in self._call("agents"):
            state = "paused" if one["settings"].get("paused") else one["settings"]["profile"]
            yield Offer(one["name"], short_help(state))

    def tags(self) -> Iterator[Offer]:
        """The tags that devices have."""
        return map(Offer, sorted({tag for device in self._devices() for tag in device["tags"]}))

    def device_filter(self) -> list[Offer]:
        """The words of a filter for devices."""
        fields: dict[str, list[str]] = self._table["filter"]["fields"]
        return term_offers(self._at.typed, fields, self._filter_values, _FILTER_QUOTES)

    def agent_filter(self) -> list[Offer]:
        """The words of a filter for the devices of an agent, which has fewer fields."""
        fields: list[str] = self._table["filter"]["of_agents"]

        def values(field: str) -> Iterable[Offer]:
            return self._filter_values(field) if field in fields else ()

        return term_offers(self._at.typed, fields, values, _FILTER_QUOTES)

    def _filter_values(self, field: str) -> Iterable[Offer]:
        if closed := self._table["filter"]["fields"].get(field):
            return map(Offer, closed)
        # Field names are offered without a service too.
        with contextlib.suppress(OSError):
            found = {text for device in self._devices() for text in self._texts(device, field)}
            return map(Offer, sorted(found))
        return ()

    def _texts(self, device: dict[str, Any], field: str) -> list[str]:
        if field == "os":
            platform = str(device["platform"]).casefold()
            return [self._table["filter"]["os"].get(platform, platform)]
        if field == "tag":
            return list(device["tags"])
        return [str(device.get(field or "name", ""))]

    def query(self) -> list[Offer]:
        """The words of a query to the journal."""
        return term_offers(self._at.typed, self._table["query"]["fields"], self._query_values, _QUERY_QUOTES)

    def _query_values(self, field: str) -> Iterable[Offer]:
        if closed := self._table["query"]["fields"].get(field):
            return map(Offer, closed)
        match field:
            case "device":
                return (Offer(one["name"]) for one in self._devices())
            case "run":
                return self.runs()
            case "tool":
                return map(Offer, sorted({tool for run in self._runs() for tool in run["tools"]}))
            case "actor":
                return map(Offer, sorted({run["actor"] for run in self._runs()}))
            case "since" | "until":
                return map(Offer, _AGES)
        return ()

    def files(self) -> Iterator[Offer]:
        """Files and folders."""
        return path_offers(self._at.typed)

    def folders(self) -> Iterator[Offer]:
        """Folders."""
        return path_offers(self._at.typed, folders_only=True)


def _nothing(_: Offers) -> Iterable[Offer]:
    return ()


def _key(word: str) -> str:
    return word.partition("=")[0].removesuffix(":")


def _behind(start: str, offer: Offer) -> Offer:
    return Offer(start + offer.text, offer.help, offer.is_open, offer.is_path)


def _sign(declared: Any) -> str:
    """What follows the name of an input: a secret one is read from a file, a list or an object is JSON."""
    if _field(declared, "secret"):
        return "=@"
    return ":=" if _field(declared, "type") in ("list", "object") else "="


def _input_help(declared: Any) -> str:
    kind = "secret" if _field(declared, "secret") else str(_field(declared, "type") or "")
    return short_help(kind, str(_field(declared, "description") or ""))


def _input_values(declared: Any, as_json: bool) -> Iterator[str]:
    allowed = _field(declared, "one_of")
    values = allowed if isinstance(allowed, list) else []
    if not values and _field(declared, "type") == "boolean":
        values = [True, False]
    return filter(None, (written(value, as_json) for value in values))


def _field(declared: Any, name: str) -> Any:
    return declared.get(name) if isinstance(declared, dict) else None


_BY_KIND: dict[Kind, Callable[[Offers], Iterable[Offer]]] = {
    Kind.DEVICE: Offers.devices,
    Kind.TARGET: Offers.targets,
    Kind.TOOL: Offers.tools,
    Kind.TOOL_ARGUMENT: Offers.tool_arguments,
    Kind.RUN: Offers.runs,
    Kind.STEP: Offers.steps,
    Kind.BATCH: Offers.batches,
    Kind.INPUT: Offers.inputs,
    Kind.INPUT_NAME: Offers.input_names,
    Kind.APPROVAL: Offers.approvals,
    Kind.GRANT: Offers.grants,
    Kind.GRANT_TERMS: Offers.grant_terms,
    Kind.OPERATOR: Offers.operators,
    Kind.AGENT: Offers.agents,
    Kind.FILTER: Offers.device_filter,
    Kind.AGENT_FILTER: Offers.agent_filter,
    Kind.TAG: Offers.tags,
    Kind.QUERY: Offers.query,
    Kind.FILE: Offers.files,
    Kind.FOLDER: Offers.folders,
}
