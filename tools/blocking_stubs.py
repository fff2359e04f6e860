"""Write `onlooker/blocking.pyi`: what a type checker and an editor know of the blocking classes.

They are the async classes without `async`, so the stub is made from their source: signatures, types and
docstrings.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "onlooker"
STUB = SOURCE / "blocking.pyi"

# Where each class stands, and in which order the stub gives them.
CLASSES = {
    "EventStream": "engine/events.py",
    "Items": "engine/items.py",
    "NotesFolder": "files/notes_folder.py",
    "Index": "engine/indexing.py",
    "Storage": "engine/storage.py",
    "Retention": "engine/retention.py",
    "Background": "engine/background.py",
    "History": "engine/corrections.py",
    "Tools": "engine/tools.py",
    "Session": "engine/session.py",
    "Memory": "engine/memory.py",
    "RemoteSession": "client.py",
    "RemoteMemory": "client.py",
}
# Classes of which the public fields are part of the surface.
FIELDS = {"EventStream", "RemoteSession", "Session"}
FUNCTIONS = {"open_memory": "wiring.py", "connect": "client.py", "migrate": "migration.py"}
# What the engine calls, and no caller needs.
HIDDEN = {"archive", "finish", "hear", "in_zone", "pick_up", "renew", "run", "start", "stop", "take"}
WITHOUT_AWAIT = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
HEAD = '"""Types of `blocking.py`. Written by `make stubs` from the async classes: change those instead."""\n'


class Module:
    """A source file: its classes and functions, and where its names come from."""

    def __init__(self, path: str) -> None:
        self.tree = ast.parse((SOURCE / path).read_text("utf-8"))
        self.name = "onlooker." + path.removesuffix(".py").replace("/", ".")
        self.imports: dict[str, str] = {}
        self.own: dict[str, ast.stmt] = {}
        for statement in _with_type_checking(self.tree.body):
            if isinstance(statement, ast.ImportFrom):
                for alias in statement.names:
                    line = ast.unparse(ast.ImportFrom(statement.module, [alias], statement.level))
                    self.imports[alias.asname or alias.name] = line
            elif isinstance(statement, ast.Import):
                for alias in statement.names:
                    self.imports[alias.asname or alias.name] = ast.unparse(ast.Import([alias]))
            elif isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.own[statement.name] = statement
            elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self.own[statement.targets[0].id] = statement

    def origin(self, name: str) -> str | None:
        """The statement that makes the name known elsewhere; None for a builtin."""
        if name in self.imports:
            return self.imports[name]
        if name not in self.own:
            return None
        found = self.own[name]
        if isinstance(found, ast.Assign) and "TypeVar" in ast.unparse(found.value):
            return ast.unparse(found)
        return f"from {self.name} import {name}"


def _with_type_checking(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            yield from statement.body
        else:
            yield statement


def stub() -> str:
    """The stub's text."""
    needed: set[str] = set()
    parts: list[str] = []
    for name, path in CLASSES.items():
        module = Module(path)
        found = module.own[name]
        assert isinstance(found, ast.ClassDef)
        parts.append(_class(found, module, needed))
    for name, path in FUNCTIONS.items():
        module = Module(path)
        found = module.own[name]
        assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
        parts.append(_function(found, module, needed))
    _refuse_clashes(needed)
    imports = sorted(line for line in needed if "import" in line)
    variables = sorted(line for line in needed if "import" not in line)
    text = "\n".join((HEAD, *imports, *variables, "", *parts))
    return _formatted(text)


def _refuse_clashes(needed: set[str]) -> None:
    """One name cannot mean two things in one stub: rename it in one of the async modules."""
    names = [line.split(" = ")[0] if " = " in line else line.split()[-1] for line in needed]
    clashes = {name for name in names if names.count(name) > 1}
    if clashes:
        raise SystemExit(f"two meanings of {', '.join(sorted(clashes))}: " + "; ".join(sorted(needed)))


def _class(found: ast.ClassDef, module: Module, needed: set[str]) -> str:
    body: list[str] = _doc(found)
    for member in found.body:
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef) and _is_public(member.name):
            body.append(_function(member, module, needed))
        elif isinstance(member, ast.AnnAssign) and found.name in FIELDS and _is_public(_name(member)):
            body.append(
                f"@property\ndef {_name(member)}(self) -> {_use(member.annotation, module, needed)}: ..."
            )
    bases = [_use(base, module, needed) for base in found.bases if "Protocol" not in ast.unparse(found)]
    head = f"class {found.name}({', '.join(bases)}):" if bases else f"class {found.name}:"
    return "\n".join((head, *("    " + line for part in body for line in part.splitlines())))


def _name(field: ast.AnnAssign) -> str:
    return ast.unparse(field.target)


def _is_public(name: str) -> bool:
    return name in WITHOUT_AWAIT or (not name.startswith("_") and name not in HIDDEN)


def _function(found: ast.FunctionDef | ast.AsyncFunctionDef, module: Module, needed: set[str]) -> str:
    arguments = found.args
    for argument in (
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ):
        if argument is not None and argument.annotation is not None:
            _use(argument.annotation, module, needed)
    # A default that is a name says nothing in a stub that a reader could not look up.
    arguments.defaults = [_default(d) for d in arguments.defaults]
    arguments.kw_defaults = [None if d is None else _default(d) for d in arguments.kw_defaults]
    returns = "" if found.returns is None else f" -> {_use(found.returns, module, needed)}"
    decorators = "".join(f"@{_use(d, module, needed)}\n" for d in found.decorator_list)
    body = "".join(f"\n    {line}" for line in (*_doc(found), "...")) if ast.get_docstring(found) else " ..."
    name = WITHOUT_AWAIT.get(found.name, found.name)
    return f"{decorators}def {name}({ast.unparse(arguments)}){returns}:{body}"


def _doc(found: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    lines = (ast.get_docstring(found) or "").splitlines()
    return [f'"""{lines[0]}"""'] if len(lines) == 1 else [f'"""{lines[0]}', *lines[1:], '"""']


def _default(value: ast.expr) -> ast.expr:
    return value if isinstance(value, ast.Constant) else ast.Constant(...)


def _use(annotation: ast.expr, module: Module, needed: set[str]) -> str:
    """The annotation as text; what it names is noted as needed."""
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name) and node.id not in CLASSES:
            origin = module.origin(node.id)
            if origin is not None:
                needed.add(origin)
                if "TypeVar(" in origin:
                    assignment = ast.parse(origin).body[0]
                    assert isinstance(assignment, ast.Assign)
                    _use(assignment.value, module, needed)
    return ast.unparse(annotation)


def _formatted(text: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    options = ("--stdin-filename", str(STUB), "-")
    for command in (["check", "--fix", "--quiet", "--exit-zero"], ["format", "--quiet"]):
        text = subprocess.run(
            [ruff, *command, *options], input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


if __name__ == "__main__":
    STUB.write_text(stub(), "utf-8")
