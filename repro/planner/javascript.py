"""Translate the planner's formula from Python to JavaScript, to keep a single formula.

The translation supports the syntax used in the formula's modules and refuses any other when the
page is made. ``web/builtins.js`` provides Python's built-in functions.
"""

import ast
import inspect

from repro.memory import setting
from repro.planner import activations, architecture, formula

MODULES = (setting, architecture, activations, formula)
LEFT_OUT = {"__post_init__", "as_dict", "TrainingMethod"}
"""Functions and classes that the page does not use."""

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.LShift: "<<",
    ast.And: "&&", ast.Or: "||", ast.Not: "!", ast.USub: "-",
    ast.Eq: "===", ast.NotEq: "!==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}


def formula_script() -> str:
    """Return the formula as a script, with the numbers, classes and functions of ``MODULES``."""
    parts = []
    for node in (n for module in MODULES for n in ast.parse(inspect.getsource(module)).body):
        match node:
            case ast.Assign(value=value) | ast.AnnAssign(value=value):
                if isinstance(value, ast.Constant | ast.BinOp | ast.Dict):  # not an alias of a type
                    parts.append(f"const {_statement(node)}")
            case ast.ClassDef(name) if name not in LEFT_OUT:
                parts.append(_class(node))
            case ast.FunctionDef(name) if name not in LEFT_OUT:
                parts.append(f"function {_function(node)}")
    return "\n".join(parts)


def _class(node: ast.ClassDef) -> str:
    """Return a class; the constructor of a dataclass takes the fields in their order."""
    members = []
    fields = [n.target.id for n in node.body if isinstance(n, ast.AnnAssign)]  # type: ignore[union-attr]
    if fields:
        names = ", ".join(fields)
        members.append(f"constructor({names}) {{ Object.assign(this, {{ {names} }}); }}")
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name not in LEFT_OUT:
            is_property = any(isinstance(d, ast.Name) for d in method.decorator_list)
            members.append(("get " if is_property else "") + _function(method))
    return f"class {node.name} {{\n" + "\n".join(members) + "\n}"


def _function(node: ast.FunctionDef) -> str:
    """Return a function without its keyword; names that it assigns are declared first."""
    positional = [argument.arg for argument in node.args.args if argument.arg != "self"]
    named = [
        argument.arg if default is None else f"{argument.arg} = {_expression(default)}"
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    ]
    parameters = [*positional, f"{{ {', '.join(named)} }} = {{}}"] if named else positional
    inner = [n for statement in node.body for n in ast.walk(statement)]
    stored = [n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    own = [name for name in dict.fromkeys(stored) if name not in positional]
    star = "*" if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in inner) else ""
    name = "constructor" if node.name == "__init__" else node.name
    declared = f"let {', '.join(own)};\n" if own else ""
    return f"{star}{name}({', '.join(parameters)}) {{\n{declared}{_block(node.body)}\n}}"


def _block(statements: list[ast.stmt]) -> str:
    return "\n".join(_statement(statement) for statement in statements)


def _statement(node: ast.stmt) -> str:
    match node:
        case ast.Expr(ast.Constant()):  # a docstring
            return ""
        case ast.Expr(value):
            return f"{_expression(value)};"
        case ast.Return(ast.expr() as value):
            return f"return {_expression(value)};"
        case ast.Assign([target], value):
            return f"{_expression(target)} = {_expression(value)};"
        case ast.AnnAssign(target, _, ast.expr() as value):
            return f"{_expression(target)} = {_expression(value)};"
        case ast.AugAssign(target, operator, value):
            return f"{_expression(target)} {_OPERATORS[type(operator)]}= {_expression(value)};"
        case ast.If(test, body, otherwise):
            rest = f" else {{\n{_block(otherwise)}\n}}" if otherwise else ""
            return f"if ({_expression(test)}) {{\n{_block(body)}\n}}{rest}"
        case ast.While(test, body, []):
            return f"while ({_expression(test)}) {{\n{_block(body)}\n}}"
    raise _unknown(node)


def _expression(node: ast.expr) -> str:
    match node:
        case ast.Constant(str() as text):
            return f'"{text}"'
        case ast.Constant(value):
            return _CONSTANTS.get(str(value), str(value))
        case ast.Name(name):
            return "this" if name == "self" else name
        case ast.Attribute(ast.Name("activations"), name):  # a module
            return name
        case ast.Attribute(value, name):
            return f"{_expression(value)}.{name}"
        case ast.BinOp(left, ast.FloorDiv(), right):
            return f"Math.floor({_expression(left)} / {_expression(right)})"
        case ast.BinOp(left, operator, right):
            return f"({_expression(left)} {_OPERATORS[type(operator)]} {_expression(right)})"
        case ast.UnaryOp(operator, value):
            return f"({_OPERATORS[type(operator)]}{_expression(value)})"
        case ast.BoolOp(operator, values):
            return f"({f' {_OPERATORS[type(operator)]} '.join(map(_expression, values))})"
        case ast.Compare(left, [ast.In()], [right]):
            return f"{_expression(right)}.includes({_expression(left)})"
        case ast.Compare(left, [operator], [right]):
            return f"({_expression(left)} {_OPERATORS[type(operator)]} {_expression(right)})"
        case ast.IfExp(test, body, otherwise):
            return f"({_expression(test)} ? {_expression(body)} : {_expression(otherwise)})"
        case ast.Tuple(elements):
            return f"[{', '.join(map(_expression, elements))}]"
        case ast.Dict(keys, values):
            pairs = zip(filter(None, keys), values, strict=True)
            return f"({{ {', '.join(f'{_expression(k)}: {_expression(v)}' for k, v in pairs)} }})"
        case ast.Subscript(value, ast.Slice(ast.expr() as lower, None, None)):
            return f"{_expression(value)}.slice({_expression(lower)})"
        case ast.Subscript(value, index):
            return f"{_expression(value)}[{_expression(index)}]"
        case ast.Starred(value):
            return f"...{_expression(value)}"
        case ast.GeneratorExp(element, [ast.comprehension(target, values, [], 0)]):
            return f"{_expression(values)}.map(({_expression(target)}) => {_expression(element)})"
        case ast.Lambda(ast.arguments(args=names), body):
            return f"(({', '.join(name.arg for name in names)}) => {_expression(body)})"
        case ast.Yield(ast.expr() as value):
            return f"yield {_expression(value)}"
        case ast.YieldFrom(value):
            return f"yield* {_expression(value)}"
        case ast.Call(callee, positional, named):
            function, arguments = _expression(callee), [_expression(value) for value in positional]
            if named:  # in one object, the last argument
                words = ", ".join(f"{word.arg}: {_expression(word.value)}" for word in named)
                arguments.append(f"{{ {words} }}")
            new = "new " if function.lstrip("_")[:1].isupper() else ""
            return f"{new}{function}({', '.join(arguments)})"
    raise _unknown(node)


def _unknown(node: ast.AST) -> NotImplementedError:
    return NotImplementedError(f"no JavaScript for: {ast.unparse(node)}")
