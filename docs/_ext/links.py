"""A name in code type leads to its place in the reference, wherever that is unambiguous.

Annotations and docstrings name an object as they import it (`nopg.data._transitions.Transitions`) or by its
last part (`Transitions`); the reference lists it once, under its package or under nopg. Pages stay plain
Markdown: `TrainingResult` in backticks becomes a link here, and is what it is elsewhere.
"""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import ExtensionMetadata

# In a page: a class, or a dotted name, with or without an empty call. Single words may be anything.
_NAME_IN_A_PAGE = re.compile(r"([A-Z]\w*[a-z]\w*|\w+(\.\w+)+)(\(\))?")


def _found(env: BuildEnvironment, target: str) -> tuple[str, ObjectEntry] | None:
    """Return the one documented object of this name, private modules left out of it."""
    parts = target.removesuffix("()").split(".")
    public = [part for part in parts if not part.startswith("_")]
    objects = env.domains.python_domain.objects
    if parts[0] == "nopg" and len(public) > 1:
        # The package's own names are documented there, the others in their package.
        names = (".".join(public), ".".join(["nopg", *public[2:]]))[: len(public) - 1]
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


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the look-up and the links."""
    app.connect("missing-reference", _resolve)
    app.add_post_transform(_LinkedNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
