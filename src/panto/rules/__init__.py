"""What a history must obey, as data: `problems()` reports by these rules, the view repairs by them.

Law: a rule is a row of `table`, and what a provider takes is a `Target`; nothing here performs a repair. What of a
message is sent is decided in `verdicts`, for the report and for the view alike.
"""

from __future__ import annotations

from .report import problems as problems
from .table import RULES as RULES
from .table import Rule as Rule
from .verdicts import Target as Target

__all__ = ["RULES", "Rule", "Target", "problems"]
