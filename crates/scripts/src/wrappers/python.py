# Calls main of a script with its arguments, and writes down what it returned. Runs inside, beside the script: nothing
# that it says is trusted outside.
import asyncio, base64, datetime, decimal, importlib.util, inspect, io, json, math, os, pathlib, sys, traceback, uuid


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def run(call):
    home = os.path.dirname(call["script"])
    os.makedirs(home, exist_ok=True)
    with open(call["script"], "w", encoding="utf-8") as file:
        file.write(call["source"])
    try:
        answer = {"result": plain(outcome(call), "$", set())}
    except Refused as refused:
        answer = {"error": {"code": refused.code, "message": str(refused)}}
    except SystemExit as left:
        flush()
        if left.code in (None, 0):
            message = "the script ended itself before main returned"
            answer = {"error": {"code": "no_result", "message": message}}
        else:
            if isinstance(left.code, str):
                print(left.code, file=sys.stderr)
            code = left.code if isinstance(left.code, int) else 1
            message = f"the script ended itself with exit code {code}"
            conclude(call, {"error": {"code": "script_failed", "message": message}}, code)
    except BaseException as error:
        shown(error, call["script"])
        name = type(error).__name__
        answer = {"error": {"code": "script_failed", "name": name, "message": str(error)[:4000]}}
    conclude(call, answer, 1 if "error" in answer else 0)


def outcome(call):
    sys.path.insert(0, os.getcwd())
    spec = importlib.util.spec_from_file_location("script", call["script"])
    module = importlib.util.module_from_spec(spec)
    sys.modules["script"] = module
    spec.loader.exec_module(module)
    main = getattr(module, call["main"], None)
    if not callable(main):
        raise Refused("no_main", f"the script has no function {call['main']}: write `def {call['main']}(...):`")
    result = main(**fitting(main, bound(call)))
    return asyncio.run(awaited(result)) if inspect.isawaitable(result) else result


async def awaited(result):
    return await result


# Values that never enter: their placeholders are put where the arguments have them.
def bound(call):
    arguments = call["args"]
    for place, variable in call["secrets"].items():
        *steps, last = [step.replace("~1", "/").replace("~0", "~") for step in place.split("/")[1:]]
        inside = arguments
        for step in steps:
            inside = inside[int(step)] if isinstance(inside, list) else inside[step]
        inside[int(last) if isinstance(inside, list) else last] = os.environ[variable]
    return arguments


def fitting(main, arguments):
    parameters = inspect.signature(main).parameters
    by_name = {n: p for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if any(p.kind == p.POSITIONAL_ONLY and p.default is p.empty for p in parameters.values()):
        raise Refused("arguments_do_not_fit", "main has parameters that cannot be given by name: leave `/` out")
    anything = any(p.kind == p.VAR_KEYWORD for p in parameters.values())
    known = ", ".join(by_name) or "none"
    for name in arguments:
        if name not in by_name and not anything:
            message = f"main has no parameter `{name}`; its parameters are: {known}"
            raise Refused("arguments_do_not_fit", message)
    for name, parameter in by_name.items():
        if parameter.default is parameter.empty and name not in arguments:
            message = f"argument `{name}` is missing; main's parameters are: {known}"
            raise Refused("arguments_do_not_fit", message)
    return {name: typed(name, value, by_name.get(name)) for name, value in arguments.items()}


# What JSON has no type for arrives as text, where main says what it is.
def typed(name, value, parameter):
    wanted = parameter.annotation if parameter else None
    if not isinstance(value, str):
        return value
    try:
        if wanted in (bytes, "bytes"):
            return base64.b64decode(value, validate=True)
        if wanted in (datetime.datetime, "datetime", "datetime.datetime"):
            return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
        if wanted in (datetime.date, "date", "datetime.date"):
            return datetime.date.fromisoformat(value)
    except ValueError as error:
        message = f"argument `{name}` is no {getattr(wanted, '__name__', wanted)}: {error}"
        raise Refused("arguments_do_not_fit", message) from None
    return value


# The result as JSON has it, or where it is something else.
def plain(value, where, above):
    if value is None or isinstance(value, (bool, str)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise not_json(where, f"{value}, which JSON has no number for")
        return float(value)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (dict, list, tuple)):
        if id(value) in above:
            raise not_json(where, "a reference to itself")
        above = above | {id(value)}
        if isinstance(value, dict):
            return {key(k, where): plain(v, f"{where}.{k}", above) for k, v in value.items()}
        return [plain(v, f"{where}[{i}]", above) for i, v in enumerate(value)]
    # Numbers and tables of numpy and pandas have a plain form of their own.
    if type(value).__module__.partition(".")[0] in ("numpy", "pandas"):
        for method in ("item", "tolist", "to_dict"):
            try:
                return plain(getattr(value, method)(), where, above)
            except (AttributeError, TypeError, ValueError):
                continue
    raise not_json(where, f"a {type(value).__name__}")


def key(name, where):
    if isinstance(name, str) or isinstance(name, int):
        return str(name)
    raise not_json(where, f"a key that is a {type(name).__name__}")


def not_json(where, what):
    hints = {"a set": "; return a list", "a bytes": "; return base64 text"}
    return Refused("result_not_json", f"the result is no JSON: at {where} it has {what}{hints.get(what, '')}")


# Without the frames of this file.
def shown(error, script):
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != script:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def conclude(call, answer, code):
    text = json.dumps(answer, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    with io.open(call["result"], "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    flush()
    sys.exit(code)


run(CALL)
