"""Evaluate only the needed statements of a Python module, so that kernels are read from unchanged packages.

A package may import modules that exist only on machines with a GPU, but a kernel needs little of it: other
kernels, constants, and the names in its decorators. So only statements that bind a needed name are run, with
those that bind the names they use, in order and where their conditions hold. Other modules of the package
are evaluated in the same way; of the rest only `IMPORTED` is imported. PyTorch, and names whose statements
fail, are placeholders (`Absent`).
"""

import __future__

import ast
import builtins
import importlib.metadata
import importlib.util
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from functools import reduce
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from dse.core.files import is_file, is_folder, read_text
from dse.errors import DseError, one_line
from dse.source.nvidia.compile.absent import Absent, noted, stand_in
from dse.source.nvidia.compile.statements import (
    Leaf,
    leaves,
    levels,
    of_triton,
    plainly_bound,
    quoted,
    says_jit,
    statements,
)

# Modules without side effects.
IMPORTED = (
    *("triton", "numpy", "packaging", "__future__", "abc", "bisect", "cmath", "collections", "contextlib"),
    *("copy", "dataclasses", "enum", "fractions", "functools", "hashlib", "inspect", "itertools", "json"),
    *("math", "numbers", "operator", "platform", "random", "re", "string", "textwrap", "time", "types"),
    *("typing", "typing_extensions", "warnings"),
)
REFUSED = ("open", "exec", "eval", "compile", "input", "breakpoint", "exit", "quit", "help")
_OF_TUNING = ("key", "reset_to_zero", "restore_value")  # checked by the autotuner, not needed here
_MOST_DECORATORS = 16
MOST_LEVELS = 500  # of nested syntax: half of what Python compiles
_NOTHING = Absent("nothing")


class Module:
    """A module whose names are bound on demand."""

    def __init__(
        self, path: Path, name: str, modules: dict[Path, "Module"], tree: ast.Module | None = None
    ) -> None:
        self.path, self.modules = path, modules
        self.stamp = stamp(path)  # at the time of reading
        self.notes: dict[str, None] = {}  # unknown conditions and names, in order
        if tree is None:
            modules[path] = self
        self.tree, inside = (tree, {}) if tree is not None else _parsed(path)
        self.inside = {kernel: Module(path, name, modules, text) for kernel, text in inside.items()}
        self.leaves = list(leaves(self.tree.body))
        self.of: dict[str, list[Leaf]] = defaultdict(list)
        imported = {name for leaf in self.leaves if leaf.imports for name in leaf.binds}
        for leaf in self.leaves:
            for bound in leaf.binds - (imported - plainly_bound(leaf.node)):
                self.of[bound].append(leaf)
        self._asked: set[str] = set()
        self._triton: set[str] = set()  # names bound to those of Triton
        self._done: dict[Leaf, bool] = {}
        self._conditions: dict[ast.expr, bool | None] = {}
        self.space = ModuleType(name)
        allowed = {key: value for key, value in vars(builtins).items() if key not in REFUSED}
        allowed |= {"__import__": self._imported_inside, "print": lambda *arguments, **named: None}
        vars(self.space).update(__file__=str(path), __getattr__=self.get, __builtins__=allowed)

    def get(self, name: str) -> Any:
        """Return the value of a name, or a submodule. **Raises:** AttributeError if there is neither."""
        if name in self.inside:
            return self.inside[name].get(name)
        if not name.startswith("__"):
            self.need([name])
        if name in vars(self.space):
            return vars(self.space)[name]
        folder = self.path.parent if self.path.name == "__init__.py" else self.path
        if is_folder(folder) and (below := self._module(folder / name)):
            return below
        raise AttributeError(f"{self.path} binds no {name}")

    def need(self, names: Iterable[str]) -> None:
        """Run the statements that bind some names, and those they depend on."""
        marked, waiting = set(), list(names)
        while waiting:
            if (name := waiting.pop()) in self._asked:
                continue
            self._asked.add(name)
            for leaf in self.of.get(name, ()):
                if leaf not in marked:
                    marked.add(leaf)
                    waiting += leaf.uses
            if name not in self.of and not hasattr(builtins, name):
                self._from_star(name)
        self._take_triton(marked)
        self._run(self.tree.body, {leaf.node: leaf for leaf in self.leaves if leaf in marked})
        for leaf in self.leaves:  # a statement under a false condition is better than none
            if leaf in marked and leaf not in self._done and not leaf.binds & vars(self.space).keys():
                self._ran(leaf)

    def _take_triton(self, marked: set[Leaf]) -> None:
        """Bind imports from Triton, even where a package replaces them if Triton is missing."""
        for leaf in self.leaves:
            if leaf in marked and leaf.imports and of_triton(leaf.node) and self._import(leaf.node) is None:
                self._triton |= leaf.binds

    def _run(self, body: Sequence[ast.stmt], marked: dict[ast.stmt, Leaf]) -> bool:
        """Run the marked statements of a body. Returns whether all succeeded."""
        whole = True
        for node in body:
            match node:
                case ast.If():
                    branches = [branch for branch in (node.body, node.orelse) if _marked_in(branch, marked)]
                    holds = self._holds(node.test) if branches else None
                    if holds is None:  # unknown: take the branch with kernels, or with needed names
                        kernels = [
                            branch for branch in branches if any(map(says_jit, _marked_in(branch, marked)))
                        ]
                        branches = kernels or branches
                    if holds is None and len(branches) == 1:
                        whole &= self._run(branches[0], marked)
                    elif branches:
                        whole &= self._run(node.body if holds else node.orelse, marked)
                case ast.Try():
                    if _marked_in([*node.body, *node.handlers, *node.orelse, *node.finalbody], marked):
                        tried = {leaf.node: leaf for leaf in self.leaves if leaf.imports} | marked
                        failed = not self._run(node.body, tried)
                        rest = node.handlers[0].body if failed and node.handlers else node.orelse
                        whole &= self._run([*rest, *node.finalbody], marked)
                case ast.With():
                    whole &= self._run(node.body, marked)
                case _ if node in marked:
                    whole &= self._ran(marked[node])
        return whole

    def _holds(self, test: ast.expr) -> bool | None:
        """Return whether a condition holds; None if that depends on missing objects."""
        if test not in self._conditions:
            before = len(noted)
            try:
                holds = bool(self._value(test))
                self._conditions[test] = holds if len(noted) == before else None
            except Exception as error:  # of any type: it is the module's code
                self._note(test, error)
                self._conditions[test] = None
        return self._conditions[test]

    def _ran(self, leaf: Leaf) -> bool:
        if leaf.binds & self._triton and not leaf.imports:
            return True
        if leaf not in self._done or leaf.imports:
            self._done[leaf] = True
            error = self._import(leaf.node) if leaf.imports else self._executed(leaf.node)
            self._done[leaf] = error is None
            if error is not None and not leaf.imports:
                for name in leaf.binds:
                    vars(self.space).setdefault(name, Absent(name, _reason(error)))
        return self._done[leaf]

    def _executed(self, node: ast.stmt) -> BaseException | None:
        try:
            if isinstance(node, ast.FunctionDef):
                self._define(node)
            else:
                exec(self._code(ast.Module([node], [])), vars(self.space))
        except (Exception, SystemExit) as error:  # of any type: it is the module's code
            return error

    def _define(self, node: ast.FunctionDef) -> None:
        """Define a function, and decorate it from the inside out; decorators that fail are skipped."""
        plain = copy(node)
        if node.decorator_list:  # the code begins with the first of them
            same = ast.copy_location(ast.Name("_same", ast.Load()), node.decorator_list[0])
            plain.decorator_list = [same]
        vars(self.space)["_same"] = lambda function: function
        exec(self._code(ast.Module([plain], [])), vars(self.space))
        value = vars(self.space)[node.name]
        for decorator in reversed(node.decorator_list):
            try:
                made = self._value(_untuned(decorator))(value)
            except Exception as error:  # of any type: it is the module's code
                self._note(decorator, error)
                continue
            if jit_of(value) is None or jit_of(made) is not None:
                value = made
            else:
                self._note(decorator, TypeError("it hides the kernel"))
        vars(self.space)[node.name] = value

    def _code(self, tree: Any) -> Any:
        first = [node for node in self.tree.body if isinstance(node, ast.ImportFrom)]
        later = any(node.module == "__future__" for node in first)
        flags = __future__.annotations.compiler_flag if later else 0
        mode = "eval" if isinstance(tree, ast.Expression) else "exec"
        return compile(tree, str(self.path), mode, flags, dont_inherit=True)

    def _value(self, expression: ast.expr) -> Any:
        return eval(self._code(ast.Expression(expression)), vars(self.space))

    def _note(self, node: ast.AST, error: BaseException) -> None:
        what = one_line(ast.unparse(node))
        what = what if len(what) < 60 else f"{what[:57]}..."
        noted[f"{self.path}:{getattr(node, 'lineno', 0)}: {what}: {_reason(error)}"] = None

    def _import(self, node: Any) -> ImportError | None:
        """Bind the needed names of an import. Returns the error if one of them is missing."""
        failed, space = None, vars(self.space)
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            wanted = bound in self._asked and isinstance(space.get(bound, _NOTHING), Absent)
            try:
                if isinstance(node, ast.ImportFrom):
                    imported = self._imported(node.module or "", node.level)
                    imported = _member(imported, alias.name) if wanted else imported
                else:
                    imported = self._imported(alias.name, 0)
                    imported = imported if alias.asname else self._imported(bound, 0)
            except ImportError as error:
                imported, failed = Absent(alias.name, str(error)), error
            if wanted:
                space[bound] = imported
        return failed

    def _from_star(self, name: str) -> None:
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                try:
                    vars(self.space)[name] = _member(self._imported(node.module or "", node.level), name)
                except ImportError:
                    continue

    def _imported_inside(
        self,
        name: str,
        globals_: Any = None,
        locals_: Any = None,
        names: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Import a module for an import statement inside a function."""
        imported = self._imported(name, level)
        for imported_name in names or ():
            if imported_name != "*":
                _member(imported, imported_name)
        return imported if names else self._imported(name.partition(".")[0], level)

    def _imported(self, name: str, level: int) -> Any:
        """Find a module. **Raises:** ImportError if it is neither of the package nor in `IMPORTED`."""
        top, *parts = name.split(".")
        about = self._about_python()
        if level:
            folder = self.path.parents[level - 1]
            if module := self._module(folder.joinpath(*filter(None, (top, *parts)))):
                return module
            raise ImportError(f"{folder} has no {name}")
        if top in about:
            try:
                return reduce(getattr, parts, about[top])
            except AttributeError:
                raise ImportError(f"{name} is not imported") from None
        if top in IMPORTED:
            return import_module(name)
        for folder in self.path.parents:
            own = folder == self.path.parent or (folder / top) in self.path.parents
            if own and (module := self._module(folder.joinpath(top, *parts))):
                return module
        if top == "torch":
            return stand_in(name)
        raise ImportError(f"{name} is not of the package")

    def _about_python(self) -> dict[str, Any]:
        """Return replacements for modules of Python that could do more than describe the machine."""

        def spec(name: str) -> object | None:
            try:
                imported = self._imported(name, 0)
            except ImportError:
                return None
            return importlib.util.find_spec(name) if name.partition(".")[0] in IMPORTED else imported

        return {
            "os": SimpleNamespace(
                environ=dict(os.environ), getenv=os.environ.get, path=os.path, PathLike=os.PathLike
            ),
            "sys": SimpleNamespace(
                platform=sys.platform, version=sys.version, version_info=sys.version_info, modules={}
            ),
            "importlib": SimpleNamespace(
                import_module=lambda name: self._imported(name, 0),
                util=SimpleNamespace(find_spec=spec, module_from_spec=importlib.util.module_from_spec),
                metadata=importlib.metadata,
            ),
        }

    def _module(self, place: Path) -> ModuleType | None:
        """Return the module of a file or a folder, by its path without suffix."""
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py"), place):
            if path in self.modules:
                return self.modules[path].space
            if is_folder(path) if path == place else is_file(path):
                return Module(path, dotted(path), self.modules).space
        return None


def _parsed(path: Path) -> tuple[ast.Module, dict[str, ast.Module]]:
    """Parse a file, and the kernels that it has as texts. **Raises:** DseError if that is impossible."""
    text = read_text(path) if path.suffix == ".py" else ""
    try:
        tree = ast.parse(text)
        inside = quoted(tree)
        if max(map(levels, [tree, *inside.values()])) <= MOST_LEVELS:
            return tree, inside
    except RecursionError:
        pass
    except (SyntaxError, ValueError) as error:
        raise DseError(f"{path}: import: {type(error).__name__}: {one_line(str(error))}") from None
    raise DseError(f"{path}: import: found code nested too deeply, expected at most {MOST_LEVELS} levels")


def stamp(path: Path) -> tuple[int, int] | None:
    """Return time and size of a file, by which edits are recognised."""
    try:
        return (stat := path.stat()).st_mtime_ns, stat.st_size
    except OSError:
        return None


def dotted(path: Path) -> str:
    """Return the dotted name of a module: its packages' folders and the file."""
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while is_file(folder / "__init__.py"):
        parts, folder = [folder.name, *parts], folder.parent
    return ".".join(parts)


def _marked_in(body: Iterable[ast.AST], marked: dict[ast.stmt, Leaf]) -> list[ast.stmt]:
    return [within for node in body for within in statements(node) if within in marked]


def _member(module: Any, name: str) -> Any:
    """Return a name of a module. **Raises:** ImportError if it has no such name."""
    try:
        return getattr(module, name)
    except AttributeError as error:
        if (name_of := getattr(module, "__name__", "")).partition(".")[0] in IMPORTED:
            return import_module(f"{name_of}.{name}")
        raise ImportError(str(error)) from None


def jit_of(kernel: Any) -> Any:
    """Return Triton's function without its decorators; None if there is none."""
    jit = import_module("triton").runtime.jit.JITFunction
    for _ in range(_MOST_DECORATORS):
        if isinstance(kernel, jit) or kernel is None:
            return kernel
        kernel = getattr(kernel, "fn", None)
    return None  # it seems to have every attribute


def _untuned(decorator: ast.expr) -> ast.expr:
    if not isinstance(decorator, ast.Call):
        return decorator
    keywords = [
        ast.keyword(keyword.arg, ast.List([], ast.Load())) if keyword.arg in _OF_TUNING else keyword
        for keyword in decorator.keywords
    ]
    call = ast.copy_location(ast.Call(decorator.func, decorator.args, keywords), decorator)
    return ast.fix_missing_locations(call)


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {one_line(str(error))}" if str(error) else type(error).__name__
