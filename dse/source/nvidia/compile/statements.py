"""The statements of a Python module, with the names that they bind and use."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Leaf:
    """A statement that is run as a whole."""

    node: ast.stmt
    binds: frozenset[str]  # names that it binds or changes
    uses: frozenset[str]  # names that it and its enclosing conditions may use
    imports: bool


def leaves(body: Sequence[ast.stmt], above: frozenset[str] = frozenset()) -> Iterator[Leaf]:
    """Yield the statements of a body that are run as a whole; `above` are the names their conditions use."""
    for node in body:
        match node:
            case ast.If():
                below = above | _looked_up(node.test)
                yield from leaves([*node.body, *node.orelse], below)
            case ast.Try():
                handlers = [statement for handler in node.handlers for statement in handler.body]
                yield from leaves([*node.body, *handlers, *node.orelse, *node.finalbody], above)
            case ast.With():
                yield from leaves(node.body, above)
            case _:
                imports = isinstance(node, ast.Import | ast.ImportFrom)
                yield Leaf(node, frozenset(_bound(node)), above | _looked_up(node), imports)


def quoted(tree: ast.Module) -> dict[str, ast.Module]:
    """Return kernels by name whose text Inductor hands to `async_compile.triton`, with lines of the file."""
    kernels = {}
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(name)],
                value=ast.Call(
                    func=ast.Attribute(attr="triton"), args=[_, ast.Constant(str(text)) as place, *_]
                ),
            ):
                kernels[name] = kernel = ast.parse("\n" * (place.lineno - 1) + text)
                for statement in kernel.body[-1:]:  # after the functions that it calls
                    if isinstance(statement, ast.FunctionDef):
                        statement.name = name  # until 2023 all were named alike
    return kernels


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield a statement and those inside it, except those of functions and classes."""
    if isinstance(node, ast.stmt):
        yield node
    if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
        for child in ast.iter_child_nodes(node):
            yield from statements(child)


def levels(node: ast.AST) -> int:
    """Return the depth of nested syntax, without recursion."""
    count, level = 0, [node]
    while level:
        count, level = count + 1, [child for above in level for child in ast.iter_child_nodes(above)]
    return count


def calls(node: ast.AST) -> set[str]:
    """Return the names of the functions that code calls, without those of other modules."""
    called = (inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call))
    return {function.id for function in called if isinstance(function, ast.Name)}


def _looked_up(node: ast.AST) -> frozenset[str]:
    return frozenset(name.id for name in ast.walk(node) if isinstance(name, ast.Name))


def _bound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement binds or modifies."""
    match node:
        case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.Expr():
            if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
                yield from _base(node.value.func)
        case ast.Assign():
            for target in node.targets:
                yield from _base(target)
        case ast.AugAssign() | ast.AnnAssign():
            if node.value is not None:
                yield from _base(node.target)
        case ast.For() | ast.While():
            yield from _base(node.target) if isinstance(node, ast.For) else ()
            for inside in [*node.body, *node.orelse]:
                yield from _bound(inside)
        case ast.If() | ast.With():
            for inside in [*node.body, *getattr(node, "orelse", ())]:
                yield from _bound(inside)


def plainly_bound(node: ast.stmt) -> set[str]:
    """List the names that a statement binds, without those it modifies."""
    stored = {
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    }
    return {name for name in _bound(node) if name in stored or not isinstance(node, ast.Expr | ast.Assign)}


def _base(target: ast.expr) -> Iterator[str]:
    match target:
        case ast.Name():
            yield target.id
        case ast.Attribute() | ast.Subscript() | ast.Starred():
            yield from _base(target.value)
        case ast.Tuple() | ast.List():
            for element in target.elts:
                yield from _base(element)


def of_triton(node: ast.stmt) -> bool:
    """Return whether a statement imports from Triton."""
    if isinstance(node, ast.ImportFrom):
        return not node.level and (node.module or "").partition(".")[0] == "triton"
    return isinstance(node, ast.Import) and all(
        alias.name.partition(".")[0] == "triton" for alias in node.names
    )


def says_jit(node: ast.stmt) -> bool:
    """Return whether the text of a statement makes a kernel."""
    match node:
        case ast.FunctionDef():
            said = node.decorator_list
        case ast.Assign(value=ast.Call()):
            said = [node.value]
        case _:
            return False
    names = {
        getattr(inner, "attr", getattr(inner, "id", ""))
        for decorator in said
        for inner in ast.walk(decorator)
    }
    return "jit" in names
