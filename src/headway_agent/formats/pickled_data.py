"""The plain data in a pickle: dicts, lists, numbers and strings; whatever else is in it becomes an inert Thing.

No part of the pickle is imported, called or even hashed (but for plain keys), so that none can do anything. All work
has a limit. Where a pickle ends, without reading it, is in pickles.py.
"""

from __future__ import annotations

import struct

from headway_agent.formats.pickles import STOP, Cut, Odd, TooLong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from headway_agent.formats.pickles import Read

OPCODES_MAX = 400_000
WINDOW_BYTES = 64 << 10
MARGIN_BYTES = 16  # More than an opcode with a number.
BYTES_KEPT_MAX = 1024  # Longer bytes are weights or pictures.
INTEGER_BYTES_MAX = 20  # A longer number is not a step, and slow to make.
MEMOIZE, BINPUT, LONG_BINPUT, BINGET, BININT1 = 0x94, ord("q"), ord("r"), ord("h"), ord("K")
DICTS = ("OrderedDict", "defaultdict", "dict", "Counter")
PLAIN_KEYS = (str, int, float, bool, bytes, type(None))


class Thing:
    """An object of some class: its name, what it was made of, and what was put into it."""

    __slots__ = ("args", "name", "state")

    def __init__(self, name: str, args: Any = ()) -> None:
        self.name, self.args, self.state = name, args, None  # type: str, Any, Any


class Loading:
    """A pickle's stack machine, reduced to data. It reads a window at a time, and leaps over what is long."""

    def __init__(self, read: Read, at: int = 0) -> None:
        self._read, self._base = read, at
        self._window, self._i = b"", 0
        self._left = OPCODES_MAX
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.persistent: list[Any] = []  # What it refers to outside, in order.

    @property
    def at(self) -> int:
        """The offset of what comes next; behind the pickle, once it is loaded."""
        return self._base + self._i

    def load(self) -> Any:
        """The data of the pickle that begins here; called again, of the next one."""
        self.stack, self.marks, self.memo = [], [], {}
        try:
            return self._load()
        except (IndexError, struct.error):
            raise Cut from None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Odd from None

    def _load(self) -> Any:
        stack, memo, number = self.stack, self.memo, struct.Struct("<I").unpack_from
        while self._left:
            self._left -= 1
            i = self._i
            if i + MARGIN_BYTES > len(self._window):
                self._fill(MARGIN_BYTES)
                i = 0
            window = self._window
            op = window[i]
            # Two of three opcodes are these; each a call less.
            if op == LONG_BINPUT:
                memo[number(window, i + 1)[0]] = stack[-1]
                self._i = i + 5
            elif op == BINGET:
                stack.append(memo[window[i + 1]])
                self._i = i + 2
            elif op == BININT1:
                stack.append(window[i + 1])
                self._i = i + 2
            elif op == MEMOIZE:
                memo[len(memo)] = stack[-1]
                self._i = i + 1
            elif op == BINPUT:
                memo[window[i + 1]] = stack[-1]
                self._i = i + 2
            elif op in _BARE:
                self._i = i + 1
                _BARE[op](self)
            elif op in _ARGUED:
                self._i = i + 1
                read, use = _ARGUED[op]
                use(self, read(self))
            elif op == STOP:
                self._i = i + 1
                return stack.pop()
            else:
                raise Odd
        raise TooLong

    # --- arguments ---

    def _fill(self, count: int) -> None:
        """Have so many bytes in the window, as far as the data goes."""
        self._base, self._i = self.at, 0
        self._window = self._read(self._base, max(count, WINDOW_BYTES))

    def take(self, count: int) -> bytes:
        if self._i + count > len(self._window):
            self._fill(count)
        found = self._window[self._i : self._i + count]
        if len(found) < count:
            raise Cut
        self._i += count
        return found

    def line(self) -> str:
        end = self._window.find(b"\n", self._i)
        if end < 0:
            self._fill(WINDOW_BYTES)
            end = self._window.find(b"\n")
        if end < 0:
            raise Cut if len(self._window) < WINDOW_BYTES else TooLong
        found = self._window[self._i : end]
        self._i = end + 1
        return found.decode("utf-8", "replace")

    def long_bytes(self, width: int) -> bytes:
        """Only short ones are kept."""
        count = int.from_bytes(self.take(width), "little")
        if count <= BYTES_KEPT_MAX:
            return self.take(count)
        self._i += count
        if self._i >= len(self._window):
            self._fill(MARGIN_BYTES)
            if not self._window:
                raise Cut
        return b""

    # --- what opcodes do ---

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def items(self) -> list[Any]:
        """Pop what came since the last mark."""
        mark = self.marks.pop()
        found = self.stack[mark:]
        del self.stack[mark:]
        return found

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]

    def call(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = _made(self.stack[-1], args)

    def call_with_names(self) -> None:
        self.stack.pop()
        self.call()

    def build(self) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        if isinstance(made, Thing):
            if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
                state = state[1]  # What has slots says both.
            made.state = state

    def set_items(self, pairs: list[Any]) -> None:
        made = self.stack[-1]
        if isinstance(made, Thing):
            made.state = made.state if isinstance(made.state, dict) else {}
            made = made.state
        if isinstance(made, dict):
            _put_pairs(made, pairs)

    def append(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)

    def last(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise Odd
        found = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return found

    def refer(self, identity: Any) -> None:
        self.persistent.append(identity)
        self.push(Thing("persistent", identity))


def _put_pairs(into: dict[Any, Any], pairs: list[Any]) -> None:
    for key, value in zip(pairs[::2], pairs[1::2]):
        # A tuple that holds a tuple that holds ... would be hashed without a limit; a Thing is only itself.
        into[key if isinstance(key, PLAIN_KEYS) else Thing("key", key)] = value


def _made(of: Any, args: Any) -> Any:
    """What a call would have made, where that is plain data."""
    name = of.name if isinstance(of, Thing) else ""
    short = name.rpartition(".")[2]
    if short in DICTS:
        made: dict[Any, Any] = {}
        pairs = args[-1] if isinstance(args, tuple) and args else ()
        for pair in pairs if isinstance(pairs, list) else ():
            if isinstance(pair, (list, tuple)) and len(pair) == 2:
                _put_pairs(made, list(pair))
        return made
    if name == "_codecs.encode":
        return args[0].encode("latin-1", "replace")  # Bytes, as protocol 2 has them.
    if short == "scalar" and name.startswith("numpy"):
        return _numpy_scalar(args)
    return Thing(name, args)


def _numpy_scalar(args: Any) -> Any:
    """A whole number of numpy's, from its type and its bytes."""
    kind = args[0].args[0] if isinstance(args[0], Thing) and isinstance(args[0].args, tuple) else ""
    raw = args[1].encode("latin-1") if isinstance(args[1], str) else args[1]
    if isinstance(kind, str) and kind[:1] in ("i", "u") and isinstance(raw, bytes) and len(raw) <= 8:
        return int.from_bytes(raw, "little", signed=kind[0] == "i")
    return Thing("numpy.scalar", args)


def _integer(text: str) -> Any:
    text = text.rstrip("L")
    return int(text) if len(text) <= INTEGER_BYTES_MAX else Thing("int")


def _number(text: str) -> Any:
    return {"00": False, "01": True}.get(text, _integer(text))


def _long(raw: bytes) -> Any:
    return int.from_bytes(raw, "little", signed=True) if len(raw) <= INTEGER_BYTES_MAX else Thing("int")


def _tuple(size: int) -> Callable[[Loading], None]:
    return lambda loading: loading.push(tuple(loading.last(size)))


def _fixed(form: str) -> Callable[[Loading], Any]:
    size = struct.calcsize(form)
    return lambda loading: struct.unpack(form, loading.take(size))[0]


def _text(width: int, encoding: str) -> Callable[[Loading], str]:
    return lambda loading: loading.long_bytes(width).decode(encoding, "replace")


def _raw(width: int) -> Callable[[Loading], bytes]:
    return lambda loading: loading.long_bytes(width)


def _dict(loading: Loading) -> None:
    made: dict[Any, Any] = {}
    _put_pairs(made, loading.items())
    loading.push(made)


def _named(loading: Loading) -> None:
    module, name = loading.last(2)
    loading.push(Thing(f"{module}.{name}"))


def _two_lines(loading: Loading) -> Thing:
    module = loading.line()
    return Thing(f"{module}.{loading.line()}")


def _instance(loading: Loading) -> None:
    of, *args = loading.items()
    loading.push(_made(of, tuple(args)))


# What needs nothing but the stack.
_BARE: dict[int, Callable[[Loading], Any]] = {
    ord("("): lambda loading: loading.marks.append(len(loading.stack)),
    ord("0"): lambda loading: loading.stack.pop() if loading.stack else loading.marks.pop(),
    ord("1"): Loading.items,
    ord("2"): lambda loading: loading.push(loading.stack[-1]),
    ord("N"): lambda loading: loading.push(None),
    0x88: lambda loading: loading.push(True),
    0x89: lambda loading: loading.push(False),
    ord("]"): lambda loading: loading.push([]),
    ord("}"): lambda loading: loading.push({}),
    ord(")"): lambda loading: loading.push(()),
    0x8F: lambda loading: loading.push([]),
    ord("l"): lambda loading: loading.push(loading.items()),
    ord("t"): lambda loading: loading.push(tuple(loading.items())),
    0x91: lambda loading: loading.push(loading.items()),
    0x85: _tuple(1),
    0x86: _tuple(2),
    0x87: _tuple(3),
    ord("d"): _dict,
    ord("a"): lambda loading: loading.append(loading.last(1)),
    ord("e"): lambda loading: loading.append(loading.items()),
    0x90: lambda loading: loading.append(loading.items()),
    ord("s"): lambda loading: loading.set_items(loading.last(2)),
    ord("u"): lambda loading: loading.set_items(loading.items()),
    ord("R"): Loading.call,
    0x81: Loading.call,
    0x92: Loading.call_with_names,
    ord("b"): Loading.build,
    ord("o"): _instance,
    0x93: _named,
    ord("Q"): lambda loading: loading.refer(loading.stack.pop()),
    0x97: lambda loading: loading.push(Thing("buffer")),
    0x98: lambda loading: None,
}
# How the argument is read, and what is done with it.
_ARGUED: dict[int, tuple[Callable[[Loading], Any], Callable[[Loading, Any], None]]] = {
    ord("M"): (_fixed("<H"), Loading.push),
    ord("J"): (_fixed("<i"), Loading.push),
    ord("G"): (_fixed(">d"), Loading.push),
    0x8A: (lambda loading: _long(loading.long_bytes(1)), Loading.push),
    0x8B: (lambda loading: _long(loading.long_bytes(4)), Loading.push),
    ord("I"): (lambda loading: _number(loading.line()), Loading.push),
    ord("L"): (lambda loading: _integer(loading.line()), Loading.push),
    ord("F"): (lambda loading: float(loading.line()[:50]), Loading.push),
    ord("S"): (lambda loading: loading.line()[1:-1], Loading.push),
    ord("V"): (Loading.line, Loading.push),
    ord("U"): (_text(1, "latin-1"), Loading.push),
    ord("T"): (_text(4, "latin-1"), Loading.push),
    0x8C: (_text(1, "utf-8"), Loading.push),
    ord("X"): (_text(4, "utf-8"), Loading.push),
    0x8D: (_text(8, "utf-8"), Loading.push),
    ord("C"): (_raw(1), Loading.push),
    ord("B"): (_raw(4), Loading.push),
    0x8E: (_raw(8), Loading.push),
    0x96: (_raw(8), Loading.push),
    ord("p"): (lambda loading: _integer(loading.line()), Loading.put),
    ord("j"): (_fixed("<I"), lambda loading, index: loading.push(loading.memo[index])),
    ord("g"): (lambda loading: _integer(loading.line()), lambda loading, index: loading.push(loading.memo[index])),
    ord("c"): (_two_lines, Loading.push),
    ord("i"): (_two_lines, lambda loading, of: loading.push(_made(of, tuple(loading.items())))),
    ord("P"): (Loading.line, Loading.refer),
    0x80: (_fixed("<B"), lambda loading, protocol: None),
    0x95: (_fixed("<Q"), lambda loading, length: None),
    0x82: (_fixed("<B"), lambda loading, code: loading.push(Thing("extension"))),
    0x83: (_fixed("<H"), lambda loading, code: loading.push(Thing("extension"))),
    0x84: (_fixed("<i"), lambda loading, code: loading.push(Thing("extension"))),
}
