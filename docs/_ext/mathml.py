"""Formulas as MathML, which browsers draw themselves: no script, no font, no other host."""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

_ACCENT = re.compile(r'<mover accent="true">\s*<mi>(\w)</mi>\s*<mo stretchy="false">(.)</mo>\s*</mover>')
_COMBINING = {
    "\N{MODIFIER LETTER CIRCUMFLEX ACCENT}": "\N{COMBINING CIRCUMFLEX ACCENT}",
    "\N{MODIFIER LETTER MACRON}": "\N{COMBINING MACRON}",
    "~": "\N{COMBINING TILDE}",
}


def _mathml(tex: str, *, block: bool) -> str:
    """Return the formula; accents become part of their letter, for not every font can place them."""

    def letter(match: re.Match[str]) -> str:
        return f'<mi class="accented">{match[1]}{_COMBINING[match[2]]}</mi>'

    return _ACCENT.sub(letter, tex2mathml(tex, as_block=block))


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_mathml(node.astext(), block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
