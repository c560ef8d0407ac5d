"""Numbers as people read them: halves are rounded away from zero.

Python rounds 82.5 to 82, to the even number, and 0.7625, which in binary is a little
less, to 0.762. Whoever works out 33 of 40 by hand expects 83 %, and 61 of 80 as 0.763.
"""

from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

import numpy as np

#: Digits that a sum or mean of numbers is surely right to.
_SURE = 12


def rounded(value, decimals=3, sign=""):
    """Word a number with so many decimals; with "+" a positive one has its sign.

    Parameters
    ----------
    value : float
        The number; NaN and infinity are "nan" and "inf".
    decimals : int
        Digits after the point.
    sign : {"", "+"}
        "+" for numbers like differences.

    Returns
    -------
    words : str
        The number.

    Examples
    --------
    >>> rounded(61 / 80), rounded(-0.0004, 3), rounded(0.1, 2, "+")
    ('0.763', '0.000', '+0.10')
    """
    value = float(value)
    if not np.isfinite(value):
        return f"{value:{sign}}"
    # The decimals that are meant: 0.825 also where a mean gave 0.8249999999999998.
    meant = Decimal(f"{value:.{_SURE}g}")
    words = meant.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)
    return f"{abs(words) if words == 0 else words:{sign}f}"


def rounded_down(value):
    """Word a bound with two decimals, never as more than it is.

    Examples
    --------
    >>> rounded_down(0.599), rounded_down(0.3)
    ('0.59', '0.30')
    """
    meant = Decimal(f"{float(value):.{_SURE}g}")
    return f"{meant.quantize(Decimal('0.01'), rounding=ROUND_FLOOR):f}"


def nearest(value):
    """A number that is rounded to three decimals, as a float.

    Examples
    --------
    >>> nearest(0.0125), nearest(3.0)
    (0.013, 3.0)
    """
    return float(rounded(value, 3))


def brief(value):
    """Word a number with as many of three decimals as it has, such as a time.

    Examples
    --------
    >>> brief(0.12), brief(1.2345), brief(10)
    ('0.12', '1.235', '10')
    """
    return f"{nearest(value):g}"


def to_digits(value, digits=3):
    """A number that is rounded to so many significant digits, as a float.

    Examples
    --------
    >>> to_digits(13 / 16), to_digits(0.00012345, 2)
    (0.813, 0.00012)
    """
    value = float(value)
    if value == 0 or not np.isfinite(value):
        return value
    first = Decimal(f"{value:.{_SURE}g}").adjusted()
    return float(rounded(value, digits - 1 - first))


def number(value, digits=3):
    """Word a number with some significant digits, and never as 1e-05."""
    value = float(value)
    value = to_digits(value, digits) if abs(value) < 10**digits else value
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        return f"{float(mantissa):g} \N{MULTIPLICATION SIGN} 10^{int(power)}"
    return f"{value:.{digits}g}" if abs(value) < 10**digits else rounded(value, 0)


def p_number(p):
    """Word a p-value: three decimals, four of small ones, never 0; NaN is a dash.

    Examples
    --------
    >>> p_number(0.05), p_number(0.00999), p_number(1e-6)
    ('0.050', '0.0100', '< 0.0001')
    """
    if np.isnan(p):
        return "\N{EN DASH}"
    return "< 0.0001" if p < 0.00005 else rounded(p, 4 if p < 0.01 else 3)


def p_words(p, symbol="p"):
    """Word a p-value with its sign, as every text, table and figure does.

    Examples
    --------
    >>> p_words(0.0123), p_words(1e-6, "*p*")
    ('p = 0.012', '*p* < 0.0001')
    """
    words = p_number(p)
    return f"{symbol} {words}" if words.startswith("<") else f"{symbol} = {words}"


def percent(share, decimals=0):
    """Word a share as percent.

    Parameters
    ----------
    share : float
        From 0 to 1.
    decimals : int
        Digits after the point.

    Returns
    -------
    words : str
        The share, e.g. "83 %".

    Examples
    --------
    >>> percent(33 / 40), percent(1 / 3, 1)
    ('83 %', '33.3 %')
    """
    # The share is rounded, and not a hundred times of it, which has its own error.
    return f"{Decimal(rounded(share, decimals + 2)).scaleb(2):f} %"
