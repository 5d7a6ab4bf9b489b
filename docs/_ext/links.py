"""A name in code type leads to its place in the reference, wherever that is unambiguous.

Annotations and docstrings name an object as they import it (`nopg.data._transitions.Transitions`) or by its
last part (`Transitions`); the reference lists it once, under its room or under the package.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode
from sphinx.util.typing import ExtensionMetadata


def _found(env: BuildEnvironment, target: str) -> tuple[str, Any] | None:
    """Return the one documented object of this name, private modules left out of it."""
    parts = target.rstrip("()").split(".")
    public = [part for part in parts if not part.startswith("_")]
    objects = env.domains.python_domain.objects
    if parts[0] == "nopg" and len(public) > 1:
        # The package's own names are documented there, the others in their room.
        for name in (".".join(public), ".".join(["nopg", *public[2:]])):
            if name in objects:
                return name, objects[name]
        return None
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


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the look-up."""
    app.connect("missing-reference", _resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
