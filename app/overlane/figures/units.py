"""Turn numbers of the trace contract into text for people.

Numbers stay integers in nanoseconds and bytes everywhere else; only figures and text convert them.
"""

from __future__ import annotations

__all__ = [
    "byte_unit_of",
    "exact_ns",
    "format_bytes",
    "format_count",
    "format_fraction",
    "format_measure",
    "format_ns",
    "format_rate",
    "format_stamp",
    "format_stamps",
    "fraction",
    "unit_of",
]

_NS_UNITS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
_BYTE_UNITS = ((1, "B"), (1 << 10, "KiB"), (1 << 20, "MiB"), (1 << 30, "GiB"), (1 << 40, "TiB"))
# Above this, seconds are harder to read than minutes.
_MINUTES_FROM_NS = 600 * 1_000_000_000


def _four_digits(value: float) -> str:
    """Write a value under 1000 with four significant digits, as in 6.823, 20.42 or 111.2."""
    for decimals, limit in ((3, 9.9995), (2, 99.995), (1, 999.95)):
        if value < limit:
            return f"{value:.{decimals}f}"
    return f"{value:.0f}"


def unit_of(ns: int) -> tuple[int, str]:
    """Return the largest unit that a time reaches, nanoseconds at least: how many ns it has, and its name.

    Example:
        >>> unit_of(6_823_000), unit_of(0)
        ((1000000, 'ms'), (1, 'ns'))
    """
    return next(((factor, unit) for factor, unit in reversed(_NS_UNITS) if ns >= factor), _NS_UNITS[0])


def format_ns(ns: int | None) -> str:
    """Write a time or a length of time with a fitting unit.

    Args:
        ns: Nanoseconds; None is "unknown".

    Returns:
        Four significant digits with the unit, whole nanoseconds below 1 µs.

    Example:
        >>> format_ns(6_823_000), format_ns(850), format_ns(0)
        ('6.823 ms', '850 ns', '0')
    """
    if ns is None:
        return "unknown"
    if ns < 0:
        return "-" + format_ns(-ns)
    if ns == 0:
        return "0"
    if ns < 1_000:
        return f"{ns} ns"
    if ns >= _MINUTES_FROM_NS:
        seconds = round(ns / 1_000_000_000)
        hours, minutes = divmod(seconds // 60, 60)
        return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds % 60} s"
    for factor, unit in _NS_UNITS[1:-1]:
        if ns / factor < 999.95:
            return f"{_four_digits(ns / factor)} {unit}"
    return f"{_four_digits(ns / 1_000_000_000)} s"


def format_stamp(ns: int | None, *, resolution_ns: int = 1) -> str:
    """Write a moment with as many decimals as tell it apart from its neighbours.

    Args:
        ns: Nanoseconds from the trace's origin; None is "unknown".
        resolution_ns: Difference that must stay visible.

    Example:
        >>> format_stamp(41_559_284), format_stamp(41_559_284, resolution_ns=1_000), format_stamp(850)
        ('41.559284 ms', '41.559 ms', '850 ns')
    """
    if ns is None:
        return "unknown"
    if abs(ns) < 1_000:
        return f"{ns} ns" if ns else "0"
    factor, unit = unit_of(abs(ns))
    decimals = len(str(factor)) - 1
    while decimals > 0 and factor // 10 ** (decimals - 1) <= resolution_ns:
        decimals -= 1
    whole, rest = divmod(abs(ns), factor)
    digits = f"{rest:0{len(str(factor)) - 1}d}"[:decimals]
    sign = "-" if ns < 0 else ""
    return f"{sign}{whole}.{digits} {unit}" if digits else f"{sign}{whole} {unit}"


def format_stamps(start_ns: int, end_ns: int) -> str:
    """Write start and end of an interval so that a hundredth of it stays visible.

    Example:
        >>> format_stamps(41_559_284, 41_564_660)
        '41.55928 ms → 41.56466 ms'
    """
    resolution = max((end_ns - start_ns) // 100, 1)
    return " → ".join(format_stamp(ns, resolution_ns=resolution) for ns in (start_ns, end_ns))


def exact_ns(ns: int | None) -> str:
    r"""Write nanoseconds digit by digit in groups of three, with narrow spaces that no line breaks at.

    Example:
        >>> exact_ns(13_587_412)
        '13\u202f587\u202f412 ns'
    """
    if ns is None:
        return "unknown"
    return f"{ns:,} ns".replace(",", "\u202f")


def byte_unit_of(count: int) -> tuple[int, str]:
    """Return the largest unit that a size reaches: how many bytes it has, and its name.

    Example:
        >>> byte_unit_of(80 << 20), byte_unit_of(7)
        ((1048576, 'MiB'), (1, 'B'))
    """
    return next(((factor, unit) for factor, unit in reversed(_BYTE_UNITS) if count >= factor), _BYTE_UNITS[0])


def format_bytes(count: int | None) -> str:
    """Write a size in binary units.

    Example:
        >>> format_bytes(1536), format_bytes(12)
        ('1.500 KiB', '12 B')
    """
    if count is None:
        return "unknown"
    if abs(count) < 1 << 10:
        return f"{count} B"
    for factor, unit in _BYTE_UNITS[1:-1]:
        if abs(count) / factor < 1023.95:
            return f"{_four_digits(count / factor)} {unit}"
    factor, unit = _BYTE_UNITS[-1]
    return f"{_four_digits(count / factor)} {unit}"


def format_rate(count: int | None, ns: int | None) -> str:
    """Write bytes per time as decimal GB/s or MB/s, the units that vendors give; "unknown" without either.

    Example:
        >>> format_rate(50_000_000, 1_000_000)
        '50.00 GB/s'
    """
    if not count or not ns:
        return "unknown"
    rate = count / ns  # bytes per nanosecond are GB/s
    return f"{_four_digits(rate)} GB/s" if rate >= 1 else f"{_four_digits(rate * 1000)} MB/s"


def format_count(count: int) -> str:
    r"""Write a whole number in groups of three, with narrow spaces that no line breaks at.

    Example:
        >>> format_count(1234567)
        '1\u202f234\u202f567'
    """
    return f"{count:,}".replace(",", "\u202f")


def format_fraction(fraction: float | None) -> str:
    """Write a share in percent; one that is not zero never reads as zero, nor one below all as all.

    Example:
        >>> format_fraction(0.997), format_fraction(0.00001), format_fraction(1.0)
        ('99.7 %', '< 0.1 %', '100 %')
    """
    if fraction is None:
        return "unknown"
    if fraction <= 0:
        return "0 %"
    if fraction >= 1:
        return "100 %"
    if fraction < 0.001:
        return "< 0.1 %"
    if fraction > 0.999:
        return "> 99.9 %"
    return f"{100 * fraction:.1f} %"


def format_measure(name: str, value: float | None) -> str:
    """Write a number that runs are compared by: a share where its name says so, else a time; a dash for none.

    Example:
        >>> format_measure("idle_fraction", 0.25), format_measure("idle_ns", 850.0), format_measure("x", None)
        ('25.0 %', '850 ns', '–')
    """
    if value is None:
        return "–"
    return format_fraction(value) if name.endswith("_fraction") else format_ns(round(value))


def fraction(part: int, whole: int) -> float:
    """Return a share, 0 of nothing."""
    return part / whole if whole else 0.0
