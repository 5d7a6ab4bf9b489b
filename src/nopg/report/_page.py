"""Parts of one self-contained HTML file: texts, tables, figures with their numbers."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from nopg._typing import FloatArray
from nopg.report._csv_tables import csv_table
from nopg.report._pictures import Picture

_WIDTH, _DOTS_PER_INCH = 4.8, 150.0
# A picture of eight actions would take half of a page's bytes otherwise.
_MOST_PIXELS = 1_000_000
_STYLE = """
:root { --ink: #1a1a1a; --soft: #555; --line: #d8d8d8; --paper: #f6f6f4; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 62rem; color: var(--ink); background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.25rem 0 .5rem; padding-bottom: .25rem;
  border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.25rem 0 .25rem; }
p { margin: .5rem 0; max-width: 48rem; }
.soft { color: var(--soft); font-size: .9rem; }
.verdict { border-left: .5rem solid; padding: .75rem 1rem; margin: 1rem 0; background: var(--paper); }
.verdict p { font-size: 1.1rem; max-width: none; margin: 0; }
.ok { border-color: #009E73; } .weak { border-color: #E69F00; } .not { border-color: #D55E00; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr)); gap: .75rem; }
.numbers div { border: 1px solid var(--line); padding: .6rem .8rem; }
.numbers strong { display: block; font-size: 1.6rem; line-height: 1.2; }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: .5rem 0; min-width: 0; }
figure img { display: block; width: 100%; max-width: 34rem; height: auto; }
figcaption { font-size: .85rem; color: var(--soft); }
.wide { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .9rem .25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: normal; }
th { font-weight: 600; vertical-align: bottom; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.n { white-space: nowrap; }
td:first-child { min-width: 2.5rem; }
td.long { min-width: 14rem; overflow-wrap: anywhere; }
.facts { width: 100%; }
.facts td:first-child { width: 13rem; min-width: 8rem; color: var(--soft); }
ul { padding-left: 1.2rem; }
a { color: #0060a0; }
@media (max-width: 40rem) {
  table { font-size: .8rem; }
  th, td { padding-right: .5rem; }
  td.long { min-width: 10rem; }
}
@media print {
  @page { size: A4; margin: 15mm; }
  body { padding: 0; max-width: none; font-size: 10.5pt; }
  h2, h3 { break-after: avoid; }
  figure, tr, li, .verdict, .numbers div { break-inside: avoid; }
  .pictures { grid-template-columns: 1fr 1fr; }
  .numbers { grid-template-columns: 1fr 1fr 1fr; }
  figure img { max-width: 10cm; }
  .wide { overflow: visible; }
  .verdict { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .screen { display: none; }
}
"""


def page(title: str, subtitle: str, parts: Iterable[str]) -> str:
    """Return a whole file that loads nothing from elsewhere."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{escape(title)}</h1>\n<p class="soft">{escape(subtitle)}</p>\n'
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def verdict(kind: str, text: str, numbers: Mapping[str, tuple[str, str]]) -> str:
    """Return a sentence with its numbers: a value and a remark by name."""
    cards = "".join(
        f'<div>{escape(name)}<strong>{escape(value)}</strong><span class="soft">{escape(remark)}</span></div>'
        for name, (value, remark) in numbers.items()
    )
    return f'{notice(kind, text)}\n<div class="numbers">{cards}</div>'


def notice(kind: str, text: str) -> str:
    """Return a sentence in a box; its colour is that of a verdict."""
    return f'<div class="verdict {kind.split(maxsplit=1)[0]}"><p>{escape(text)}</p></div>'


def section(title: str, *parts: str) -> str:
    """Return parts below a heading."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def bullets(texts: Iterable[str]) -> str:
    """Return a list."""
    return "\n".join(("<ul>", *(f"<li>{paragraph(text)}</li>" for text in texts), "</ul>"))


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(text)}</p>"


def note(text: str) -> str:
    """Return a paragraph in small print."""
    return f'<p class="soft">{escape(text)}</p>'


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Iterable[int] = (),
    long: int | None = None,
) -> str:
    """Return a table.

    Args:
        head: Names of the columns.
        rows: Texts.
        numbers: Columns of numbers, aligned to the right.
        long: The column of sentences.
    """
    kinds = dict.fromkeys(numbers, ' class="n"')
    if long is not None:
        kinds[long] = ' class="long"'

    def row(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag}{kinds.get(k, '')}>{escape(cell)}</{tag}>" for k, cell in enumerate(cells))

    body = "\n".join(f"<tr>{row(cells, 'td')}</tr>" for cells in rows)
    return (
        f'<div class="wide"><table>\n<thead><tr>{row(head, "th")}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def figures(parts: Iterable[str]) -> str:
    """Return figures beside each other."""
    return '<div class="pictures">' + "\n".join(parts) + "</div>"


def figure(picture: Picture, *, file: str, text: str, cells: int) -> str:
    """Return a picture with a link to its numbers.

    Args:
        picture: The picture.
        file: Name of the CSV.
        text: Caption and alternative text.
        cells: Largest number of cells of the CSV; of more, every k-th row is kept.
    """
    image, drawn = io.BytesIO(), picture.figure
    # Smaller than a picture for a page by itself, so that its letters can be read on a phone.
    width, height = _WIDTH, _WIDTH / drawn.get_figwidth() * drawn.get_figheight()
    drawn.set_size_inches(width, height)
    dots = min(_DOTS_PER_INCH, math.sqrt(_MOST_PIXELS / (width * height)))
    drawn.savefig(image, dpi=dots, format="png", metadata={"Software": None})
    numbers, every = thinned(picture.table, cells)
    content = _coded(csv_table(numbers, digits=6).encode())
    of = f", one row in {every}" if every > 1 else ""
    return (
        f'<figure><img alt="{escape(text)}" src="data:image/png;base64,{_coded(image.getvalue())}">\n'
        f'<figcaption>{escape(text)} <a class="screen" download="{escape(file)}" '
        f'href="data:text/csv;charset=utf-8;base64,{content}">numbers as CSV{of}</a>'
        "</figcaption></figure>"
    )


def thinned(columns: Mapping[str, FloatArray], cells: int) -> tuple[Mapping[str, FloatArray], int]:
    """Return every k-th row of a table, at most some number of cells, and k."""
    size = sum(len(column) for column in columns.values())
    every = max(math.ceil(size / cells), 1)
    return {name: column[::every] for name, column in columns.items()}, every


def _coded(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
