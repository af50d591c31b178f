# ruff: noqa: PLR0917 - compiled code takes plain numbers
"""Compiled guesses of what comes next: events of one class have the same members in the same spelling.

To find a member's name, each step waits for the one before: skip blanks, find the quote, look the name up,
skip blanks again. A guess that is only compared with the text waits for nothing, so most of that time is
saved. What is remembered is the text from behind one value to the next value, with what it means.

A guess holds nothing but what the text says again: the members it leads to are read as without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from overlane.readers.kineto.keys import Class
from overlane.readers.kineto.layout import MIX
from overlane.readers.kineto.memory import byte, copy, differences, get, lowest, put
from overlane.readers.kineto.steps import head

__all__ = ["G_CLOSE", "G_ENTRY", "G_KEY", "G_LENGTH", "START", "empty_guesses", "is_next", "learn", "next_of"]

_TEXT = 64
"""Bytes of text that are compared; what is longer is not guessed."""

_GUESSES = 256
"""Guesses that a worker keeps; one more takes the place of another."""

_PLACES = _GUESSES - 2  # the first guess is none, the last one stands for the start of an event
G_LENGTH, G_WHERE, G_KEY, G_CLOSE, G_ENTRY, _NEXT = (_TEXT + 8 * k for k in range(6))
_BYTES = _NEXT + 8 * (len(Class) + 1)
START = (_GUESSES - 1) * _BYTES
"""Place of the guess that stands for the start of an event."""


def empty_guesses() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return guesses of which none comes true, int64 (guesses, words); each leads to the first."""
    guesses = np.zeros((_GUESSES, _BYTES // 8), np.int64)
    guesses[:, G_WHERE // 8] = -1
    guesses[:, _NEXT // 8 :] = guesses.ctypes.data
    return guesses


@njit("int64(int64, int64)", cache=True, nogil=True)
def next_of(guess: int, kind: int) -> int:
    """Return the place of the guess that follows another in events of a class."""
    return guess + _NEXT + 8 * (kind + 1)


@njit("boolean(int64, int64, int64, int64)", cache=True, nogil=True)
def is_next(guess: int, at: int, end: int, where: int) -> bool:
    """Tell whether the text at `at` is what is guessed, and a value follows before `end`.

    Args:
        guess: Address of a guess.
        at: Address right behind a value or an opening bracket.
        end: Address behind the last byte of the text.
        where: Scope of the member, and 1 when a value stands before it.
    """
    length = get(guess + G_LENGTH)
    if get(guess + G_WHERE) != where or at + length >= end or byte(at + length) <= 32:
        return False  # blanks before the value were not there when the guess was learned
    found = lowest(differences(at, guess))
    if found == 64:
        found = 32 + lowest(differences(at + 32, guess + 32))
    return found >= length


@njit("int64(int64, int64, int64, int64, int64, int64, int64)", cache=True, nogil=True)
def learn(guesses: int, begin: int, stop: int, where: int, key: int, close: int, entry: int) -> Any:
    """Return the guess for the text from `begin` to `stop`, entering it; the first one when it is too long.

    Args:
        guesses: Address of the worker's guesses.
        begin: Where the text begins.
        stop: Where the member's value begins.
        where: As in `is_next`.
        key: Where the member's name begins.
        close: Where its closing quote is.
        entry: Address of the known member, 0 for any other.
    """
    length = stop - begin
    if length > _TEXT:
        return guesses
    mixed: Any = (head(key, close - key) ^ np.uint64((length << 16) + where)) * MIX
    guess: Any = guesses + (1 + np.int64(mixed >> np.uint64(33)) % _PLACES) * _BYTES
    if get(guess + G_LENGTH) == length and is_next(guess, begin, stop + 1, where):
        return guess
    copy(begin, _TEXT, guess)
    put(guess + G_LENGTH, length)
    put(guess + G_WHERE, where)
    put(guess + G_KEY, key - begin)
    put(guess + G_CLOSE, close - begin)
    put(guess + G_ENTRY, entry)
    for k in range(_NEXT, _BYTES, 8):
        put(guess + k, guesses)
    return guess
