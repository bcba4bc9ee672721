"""Render formulas as MathML, which browsers draw themselves: no script, no fonts, no network.

The converter is the one that docutils brings. What it cannot convert is a warning, and so an error.
The class is not `math`, which themes style for MathJax.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError, pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

FUNCTION_OF = re.compile(r"(<mo>&ApplyFunction;</mo>)(?!\s*<mo[^>]*>\()")
"""A function's name before an argument without brackets, which not all browsers set apart."""


def convert(node, *, as_block):
    """Return a formula as MathML; several lines are aligned."""
    tex = node.astext().strip()
    if as_block and r"\begin{" not in tex:
        environment = pick_math_environment(tex)
        if environment.startswith("align"):
            tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    try:
        markup = tex2mathml(tex, as_block=as_block)
    except MathError as error:
        logger.warning("cannot convert the formula %r: %s", tex, error, location=node)
        return ""
    return FUNCTION_OF.sub(r'\1<mspace width="0.17em"></mspace>', markup)


def visit_inline(self, node):
    """Write a formula in the text."""
    self.body.append(f'<span class="formula">{convert(node, as_block=False)}</span>')
    raise nodes.SkipNode


def visit_block(self, node):
    """Write a formula on a line of its own, with its number if it has one."""
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})</span>')
    self.body.append(convert(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
