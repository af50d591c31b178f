# ruff: noqa: ARG001 - intrinsics state their arguments
"""Compiled access to memory by address: bytes, words, and 32 bytes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

__all__ = [
    "WIDTH", "blanks", "byte", "copy", "differences", "fold", "get", "get_int32", "lowest", "marks_of", "put",
    "put_byte", "put_int32", "quote_or_backslash", "same", "scalar_bytes", "word",
]  # fmt: skip

WIDTH = 32
_BYTE, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_BYTE, WIDTH)


def _inlined(function: Callable[..., Any]) -> Callable[..., int]:
    """Make an intrinsic; what the type checker sees is a function of the remaining arguments."""
    return intrinsic(function)


def _load(builder: Any, address: Any, kind: Any) -> Any:
    return builder.load(builder.inttoptr(address, kind.as_pointer()), align=1, typ=kind)


@_inlined
def byte(typingctx: Any, address: Any) -> Any:
    """Return the byte at an address."""
    return types.int64(types.int64), lambda _c, builder, _s, args: builder.zext(
        _load(builder, args[0], _BYTE), _INT64
    )


@_inlined
def word(typingctx: Any, address: Any) -> Any:
    """Return the eight bytes at an address as one little-endian integer."""
    return types.uint64(types.int64), lambda _c, builder, _s, args: _load(builder, args[0], _INT64)


@_inlined
def get(typingctx: Any, address: Any) -> Any:
    """Return the int64 at an address."""
    return types.int64(types.int64), lambda _c, builder, _s, args: _load(builder, args[0], _INT64)


@_inlined
def get_int32(typingctx: Any, address: Any) -> Any:
    """Return the int32 at an address."""
    return types.int64(types.int64), lambda _c, builder, _s, args: builder.sext(
        _load(builder, args[0], _INT32), _INT64
    )


def _store(kind: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        value = args[1] if kind is _INT64 else builder.trunc(args[1], kind)
        builder.store(value, builder.inttoptr(args[0], kind.as_pointer()), align=1)
        return context.get_dummy_value()

    return codegen


@_inlined
def put(typingctx: Any, address: Any, value: Any) -> Any:
    """Write an int64 (eight bytes) to an address."""
    return types.void(types.int64, types.int64), _store(_INT64)


@_inlined
def put_int32(typingctx: Any, address: Any, value: Any) -> Any:
    """Write an int32 to an address."""
    return types.void(types.int64, types.int64), _store(_INT32)


@_inlined
def put_byte(typingctx: Any, address: Any, value: Any) -> Any:
    """Write one byte to an address."""
    return types.void(types.int64, types.int64), _store(_BYTE)


def _splat(value: int) -> Any:
    return ir.Constant(_VECTOR, [ir.Constant(_BYTE, value)] * WIDTH)


def _first(builder: Any, mask: Any) -> Any:
    found = builder.cttz(builder.bitcast(mask, ir.IntType(WIDTH)), ir.Constant(ir.IntType(1), 0))
    return builder.zext(found, _INT64)


@_inlined
def quote_or_backslash(typingctx: Any, address: Any) -> Any:
    """Return how far the first quote or backslash is, 32 when the next 32 bytes hold none."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = _load(builder, args[0], _VECTOR)
        return _first(
            builder,
            builder.or_(
                builder.icmp_unsigned("==", data, _splat(34)), builder.icmp_unsigned("==", data, _splat(92))
            ),
        )

    return types.int64(types.int64), codegen


@_inlined
def marks_of(typingctx: Any, address: Any) -> Any:
    """Return a bit per byte of the next 32: low half `"[]{}`, high half quotes and backslashes."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = _load(builder, args[0], _VECTOR)
        folded = builder.or_(data, _splat(0x20))  # turns [ and ] into { and }
        opening = builder.icmp_unsigned("==", folded, _splat(0x7B))
        closing = builder.icmp_unsigned("==", folded, _splat(0x7D))
        quote = builder.icmp_unsigned("==", data, _splat(34))
        backslash = builder.icmp_unsigned("==", data, _splat(92))
        half = ir.IntType(WIDTH)
        low = builder.bitcast(builder.or_(builder.or_(opening, closing), quote), half)
        high = builder.bitcast(builder.or_(quote, backslash), half)
        return builder.or_(
            builder.zext(low, _INT64), builder.shl(builder.zext(high, _INT64), ir.Constant(_INT64, WIDTH))
        )

    return types.uint64(types.int64), codegen


@_inlined
def blanks(typingctx: Any, address: Any) -> Any:
    """Return how many of the next bytes are white space, 32 when all of the next 32 are."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = _load(builder, args[0], _VECTOR)
        control = builder.icmp_unsigned("<=", builder.sub(data, _splat(9)), _splat(4))
        blank = builder.or_(control, builder.icmp_unsigned("==", data, _splat(32)))
        return _first(builder, builder.not_(blank))

    return types.int64(types.int64), codegen


@_inlined
def scalar_bytes(typingctx: Any, address: Any) -> Any:
    """Return how far the first byte is that no number or literal holds, 32 when the next 32 hold none."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = _load(builder, args[0], _VECTOR)
        folded = builder.or_(data, _splat(0x20))  # turns [ and ] into { and }
        mask = builder.icmp_unsigned("<=", data, _splat(32))
        for value, character in ((data, 34), (data, 44), (data, 58), (folded, 0x7B), (folded, 0x7D)):
            mask = builder.or_(mask, builder.icmp_unsigned("==", value, _splat(character)))
        return _first(builder, mask)

    return types.int64(types.int64), codegen


@_inlined
def differences(typingctx: Any, left: Any, right: Any) -> Any:
    """Return a bit per byte in which the 32 bytes at two addresses differ."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        loaded = [_load(builder, address, _VECTOR) for address in args]
        mask = builder.icmp_unsigned("!=", *loaded)
        return builder.zext(builder.bitcast(mask, ir.IntType(WIDTH)), _INT64)

    return types.uint64(types.int64, types.int64), codegen


@_inlined
def copy_block(typingctx: Any, source: Any, target: Any) -> Any:
    """Copy 32 bytes."""

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        data = _load(builder, args[0], _VECTOR)
        builder.store(data, builder.inttoptr(args[1], _VECTOR.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@_inlined
def fold(typingctx: Any, left: Any, right: Any) -> Any:
    """Return both halves of the product of two words, one laid over the other: a step of a hash."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), _INT64)
        return builder.xor(builder.trunc(product, _INT64), high)

    return types.uint64(types.uint64, types.uint64), codegen


@_inlined
def lowest(typingctx: Any, bits: Any) -> Any:
    """Return the place of the lowest bit that is set, 64 when none is."""
    no = ir.Constant(ir.IntType(1), 0)
    return types.int64(types.uint64), lambda _c, builder, _s, args: builder.cttz(args[0], no)


@njit("void(int64, int64, int64)", cache=True, nogil=True)
def copy(source: int, length: int, target: int) -> None:
    """Copy bytes in steps of 32; up to 31 bytes behind the target are overwritten too."""
    for offset in range(0, length, WIDTH):
        copy_block(source + offset, target + offset)


@njit("boolean(int64, int64, int64)", cache=True, nogil=True)
def same(left: int, right: int, length: int) -> bool:
    """Tell whether two stretches of memory hold the same bytes; looks at up to 31 more."""
    while length >= WIDTH:
        if differences(left, right) != np.uint64(0):
            return False
        left += WIDTH
        right += WIDTH
        length -= WIDTH
    return lowest(np.uint64(differences(left, right))) >= length
