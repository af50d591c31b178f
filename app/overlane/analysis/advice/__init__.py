"""What to change: rules over the causes, ranked by the time that they cost."""

from overlane.analysis.advice.model import Advice, Evidence, Finding, NotChecked, Rule
from overlane.analysis.advice.rules import RULES, advice

__all__ = ["RULES", "Advice", "Evidence", "Finding", "NotChecked", "Rule", "advice"]
