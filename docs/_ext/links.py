"""A name in code type leads to its place in the reference, wherever that is unambiguous.

Annotations and docstrings name an object as they import it (`nopg.data._transitions.Transitions`) or by its
last part (`Transitions`); the reference lists it once, under its package or under nopg. Pages stay plain
Markdown: `TrainingResult` in backticks becomes a link here, and is what it is elsewhere. A link to a source
file, `../../src/nopg/paper/_model.py#L259`, leads to that line of the file, printed as a page of the site.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.domains.python import ObjectEntry
from sphinx.environment import BuildEnvironment
from sphinx.highlighting import PygmentsBridge
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import ExtensionMetadata

# In a page: a class, or a dotted name, with or without an empty call. Single words may be anything.
_NAME_IN_A_PAGE = re.compile(r"([A-Z]\w*[a-z]\w*|\w+(\.\w+)+)(\(\))?")
_SOURCE_IN_A_PAGE = re.compile(r"\]\((?:\.\./)+((?:src|examples|studies)/[\w/]+\.py)(?:#L(\d+))?\)")


def _found(env: BuildEnvironment, target: str) -> tuple[str, ObjectEntry] | None:
    """Return the one documented object of this name, private modules left out of it."""
    parts = target.removesuffix("()").split(".")
    public = [part for part in parts if not part.startswith("_")]
    objects = env.domains.python_domain.objects
    if parts[0] == "nopg" and len(public) > 1:
        # The package's own names are documented there, the others in their package.
        names = (".".join(public), *([".".join(["nopg", *public[2:]])] if public[2:] else []))
        return next(((name, objects[name]) for name in names if name in objects), None)
    ending = "." + ".".join(parts)
    found = [(name, entry) for name, entry in objects.items() if name.endswith(ending) and not entry.aliased]
    return found[0] if len(found) == 1 else None


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.TextElement
) -> nodes.reference | None:
    """Find what the domain itself did not."""
    if node.get("refdomain") != "py" or not (found := _found(env, node["reftarget"])):
        return None
    name, entry = found
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, name)


class _LinkedNames(SphinxPostTransform):
    """Names in the code type of a page, as links."""

    default_priority = 400
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Wrap every literal that names one documented object."""
        for literal in list(self.document.findall(nodes.literal)):
            inside = isinstance(literal.parent, nodes.reference | pending_xref)
            if inside or not _NAME_IN_A_PAGE.fullmatch(literal.astext()):
                continue
            if found := _found(self.env, literal.astext()):
                name, entry = found
                link = make_refnode(
                    self.app.builder, self.env.docname, entry.docname, entry.node_id, literal.deepcopy(), name
                )
                literal.replace_self(link)


def _allow_source_links(app: Sphinx, config: Config) -> None:
    """Let a link of the scheme `source` through as it is."""
    del app
    config.myst_url_schemes = {"http": None, "https": None, "mailto": None, "source": "{{path}}#{{fragment}}"}


def _link_sources(app: Sphinx, docname: str, content: list[str]) -> None:
    """Let links to source files lead to their pages."""
    del app
    up = "../" * docname.count("/")
    content[0] = _SOURCE_IN_A_PAGE.sub(
        lambda link: f"](source:{up}{link[1].removesuffix('.py')}.html#line-{link[2] or 1})", content[0]
    )


def _source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for each source file that a page links."""
    root, highlighter = Path(app.srcdir).parent, PygmentsBridge("html")
    texts = [Path(app.env.doc2path(name)).read_text(encoding="utf-8") for name in app.env.found_docs]
    for path in sorted({link[1] for text in texts for link in _SOURCE_IN_A_PAGE.finditer(text)}):
        text = (root / path).read_text(encoding="utf-8")
        code = highlighter.highlight_block(text, "python", linenos="inline", lineanchors="line")
        yield path.removesuffix(".py"), {"title": path, "body": f"<h1>{path}</h1>{code}"}, "page.html"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the look-up and the links."""
    app.connect("config-inited", _allow_source_links)
    app.connect("source-read", _link_sources)
    app.connect("html-collect-pages", _source_pages)
    app.connect("missing-reference", _resolve)
    app.add_post_transform(_LinkedNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
