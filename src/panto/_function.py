"""A Python function as a tool: what a model is told of it, and how its arguments reach it.

Law: what cannot be a tool is refused when the tool is made; what does not fit is refused before the function runs, with
a text for the model that names every field that is wrong and what was wanted.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping

import msgspec

from ._annotation import Field, Misfit, field_of
from ._docstring import Docstring, parse
from ._schema import ArgumentError, Schema, inlined, wanted
from .config import JSON
from .errors import ConfigError

__all__ = ["FunctionPlan"]

_MISSING = inspect.Parameter.empty


class _Parameter(msgspec.Struct, frozen=True):
    """One parameter that a model fills. `default` is `_MISSING` where it must."""

    name: str
    positional: bool
    field: Field
    default: object

    @property
    def required(self) -> bool:
        return self.default is _MISSING


class FunctionPlan:
    """A function, understood once. `run` or `run_async` of it is the function of a `Tool`, by `is_async`.

    `name` may be empty where the function has none; `context` is the name of the parameter that takes the context.
    Raises `ConfigError` for what cannot be a tool; the text names the parameter and what to do.
    """

    __slots__ = (
        "_by_position",
        "_context",
        "_parameters",
        "description",
        "fn",
        "is_async",
        "name",
        "schema",
        "takes_context",
    )

    def __init__(self, fn: Callable[..., object], context: type) -> None:
        self.fn = fn
        bare, bound = _without_partials(fn)
        self.name: str = getattr(bare, "__name__", None) or type(bare).__name__
        if self.name == "<lambda>":
            self.name = ""
        self.is_async = _is_async(bare)
        _refuse_what_is_no_tool(bare, self.name)
        doc = parse(_doc_of(bare))
        self.description = doc.prose
        self._context: str | None = None
        self._parameters: dict[str, _Parameter] = {}
        self._by_position: list[str] = []  # positional-only ones, in order, the context too
        namespace = _Namespace(bare)
        for parameter in _signature(fn, self.name).parameters.values():
            if parameter.name not in bound:
                self._add(parameter, namespace, context)
        self.takes_context = self._context is not None
        self.schema: Schema = _object_schema(self._parameters.values(), doc)

    def _add(self, parameter: inspect.Parameter, namespace: _Namespace, context: type) -> None:
        where = f"the parameter {parameter.name!r} of the tool {self.name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            raise ConfigError(
                f"{where} is {stars}{parameter.name}: a model is told of parameters by name, so give each its own, "
                "or take one list or dict"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            self._by_position.append(parameter.name)
        annotation = namespace.resolve(parameter.annotation, where, context)
        if _means(annotation, context):
            if self._context is not None:
                raise ConfigError(f"{where} is a second ToolContext; one is enough")
            self._context = parameter.name
            return
        if type(parameter.default).__name__ == "FieldInfo":
            raise ConfigError(
                f"{where} has a pydantic Field as default; write it as Annotated[..., Field(...)] = value"
            )
        try:
            field = field_of(typing.Any if annotation is _MISSING else annotation)
        except TypeError as error:
            raise ConfigError(f"{where}: {error}") from None
        positional = parameter.kind is parameter.POSITIONAL_ONLY
        self._parameters[parameter.name] = _Parameter(parameter.name, positional, field, parameter.default)

    # ------------------------------------------------------------ a call

    def check(self, arguments: Mapping[str, JSON]) -> None:
        """Raise `ArgumentError` if `arguments` do not fit; nothing is run."""
        self._converted(arguments)

    def run(self, arguments: Mapping[str, JSON], context: object = None) -> object:
        """Convert `arguments` and call the function. Raises `ArgumentError` before the function runs."""
        positional, named = self._bound(arguments, context)
        return self.fn(*positional, **named)

    async def run_async(self, arguments: Mapping[str, JSON], context: object = None) -> object:
        """The same for a function that is a coroutine."""
        positional, named = self._bound(arguments, context)
        return await typing.cast("typing.Awaitable[object]", self.fn(*positional, **named))

    def _bound(self, arguments: Mapping[str, JSON], context: object) -> tuple[list[object], dict[str, object]]:
        named = self._converted(arguments)
        if self._context is not None:
            named[self._context] = context
        positional: list[object] = []
        for name in self._by_position:
            positional.append(named.pop(name) if name in named else self._parameters[name].default)
        return positional, named

    def _converted(self, arguments: Mapping[str, JSON]) -> dict[str, object]:
        """The values by name; those with a default that were not given are left out."""
        given: dict[str, object] = msgspec.to_builtins(dict(arguments))  # a copy: the function may change what it gets
        values: dict[str, object] = {}
        wrong: list[str] = []
        for name, parameter in self._parameters.items():
            if name not in given:
                if parameter.required:
                    wrong.append(_told(name, "is missing", parameter))
                continue
            value = given.pop(name)
            try:
                values[name] = parameter.field.convert(value)
            except Misfit as misfit:
                if value is None and not parameter.required:
                    continue  # many models write null for what they leave out
                wrong.append(f"{name}{misfit.path}: {misfit.text}")
        if given:
            known = ", ".join(self._parameters) or "it takes none"
            wrong += [f"{name}: there is no such argument (known: {known})" for name in given]
        if wrong:
            raise ArgumentError("The arguments do not fit, and the tool was not run:\n- " + "\n- ".join(wrong))
        return values


def _told(name: str, what: str, parameter: _Parameter) -> str:
    want = wanted(parameter.field.schema)
    return f"{name}: {what}; wanted {want}" if want else f"{name}: {what}"


# ---------------------------------------------------------------- the schema


def _object_schema(parameters: Iterable[_Parameter], doc: Docstring) -> Schema:
    properties: dict[str, JSON] = {}
    required: list[JSON] = []
    for parameter in parameters:
        schema = dict(parameter.field.schema)
        if description := parameter.field.description or doc.params.get(parameter.name):
            schema["description"] = description
        if parameter.required:
            required.append(parameter.name)
        elif (default := _default(parameter.default)) is not _MISSING:
            schema["default"] = typing.cast("JSON", default)
        properties[parameter.name] = schema
    whole: Schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return inlined(whole)


def _default(value: object) -> object:
    """A default as JSON, or `_MISSING` where it has none. Sets are sorted, so that each process says the same."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_default_hook, order="deterministic"))
    except Exception:
        return _MISSING


def _default_hook(value: object) -> object:
    import pathlib

    if isinstance(value, pathlib.PurePath):
        return str(value)
    if callable(dump := getattr(value, "model_dump", None)):
        return dump(mode="json")
    raise NotImplementedError


# ---------------------------------------------------------------- the function


def _without_partials(fn: object) -> tuple[object, set[str]]:
    """What is called in the end, and the names that partials have filled: they are not shown to the model."""
    bound: set[str] = set()
    while isinstance(fn, functools.partial):
        bound |= set(fn.keywords)
        fn = fn.func
    return fn, bound


def _called(fn: object) -> object:
    """The function behind a callable object."""
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return fn
    return getattr(fn, "__call__", fn)  # noqa: B004  not a test but the thing itself


def _is_async(fn: object) -> bool:
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(_called(fn))


def _refuse_what_is_no_tool(fn: object, name: str) -> None:
    called = _called(fn)
    if not callable(fn):
        hint = "; decorate inside it, on the function" if isinstance(fn, classmethod) else ""
        raise ConfigError(f"a tool needs a function, not {type(fn).__name__}{hint}")
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigError(f"the tool {name!r} yields; a tool returns its result (ToolContext.progress tells steps)")
    in_class = getattr(fn, "__qualname__", "").rpartition(".")[0].rpartition(".")[2] not in ("", "<locals>")
    code: types.CodeType | None = getattr(inspect.unwrap(fn), "__code__", None)
    if in_class and code is not None and code.co_varnames[:1] == ("self",) and not hasattr(fn, "__self__"):
        raise ConfigError(f"the tool {name!r} is a method without its object; register the method of an instance")


def _doc_of(fn: object) -> str | None:
    if inspect.isroutine(fn) or inspect.isclass(fn):
        return inspect.getdoc(fn)
    return getattr(_called(fn), "__doc__", None) or type(fn).__doc__


def _signature(fn: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (ValueError, TypeError, NameError) as error:
        raise ConfigError(
            f"the signature of the tool {name!r} cannot be read ({error}); wrap it in a function"
        ) from None


# ---------------------------------------------------------------- its annotations


def _means(annotation: object, context: type) -> bool:
    """Whether an annotation is the context: itself, a class made from it, optional or annotated."""
    if isinstance(annotation, type):
        return annotation is context or context in annotation.__mro__
    if typing.get_origin(annotation) not in (typing.Annotated, typing.Union, types.UnionType):
        return False
    return any(_means(item, context) for item in typing.get_args(annotation))


class _Namespace:
    """Where the names in a function's annotations are looked up: its globals, its closure, and, while the function
    that defines it is running, that function's locals.
    """

    def __init__(self, fn: object) -> None:
        called: typing.Any = _called(fn)
        called = inspect.unwrap(getattr(called, "__init__" if inspect.isclass(called) else "__func__", called))
        module = sys.modules.get(getattr(called, "__module__", None) or "")
        self.globals: dict[str, object] = getattr(called, "__globals__", None) or vars(module or typing)
        self.locals: dict[str, object] = _locals_around(getattr(called, "__qualname__", ""), self.globals)
        code, closure = getattr(called, "__code__", None), getattr(called, "__closure__", None) or ()
        for name, cell in zip(getattr(code, "co_freevars", ()), closure):
            try:
                self.locals[name] = cell.cell_contents
            except ValueError:  # not filled yet
                continue

    def resolve(self, annotation: object, where: str, context: type) -> object:
        """An annotation with its strings evaluated. Raises `ConfigError` naming what is unknown."""
        if annotation is _MISSING:
            return annotation

        def holder() -> None: ...

        holder.__annotations__ = {"it": annotation}
        try:
            return typing.get_type_hints(holder, self.globals, self.locals, include_extras=True)["it"]
        except Exception as error:
            if isinstance(annotation, str) and _names_context(annotation):
                return context  # imported for the type checker alone
            raise ConfigError(
                f"the annotation {annotation!r} of {where} cannot be resolved ({error}); "
                "the name must exist at run time, not under TYPE_CHECKING alone"
            ) from None


def _names_context(annotation: str) -> bool:
    parts = [part.strip() for part in annotation.strip("'\" ").split("|")]
    return [part.rpartition(".")[2] for part in parts if part != "None"] == ["ToolContext"]


def _locals_around(qualname: str, of: Mapping[str, object]) -> dict[str, object]:
    """The locals of the running call that defines the function: classes defined beside it are named only there."""
    outer = qualname.rpartition(".<locals>.")[0]
    frame = sys._getframe() if outer else None
    while frame is not None:
        if frame.f_globals is of and frame.f_code.co_qualname == outer:
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}
