"""Headings of three documents on safety, and what of an assurance page helps a reader of each."""

from __future__ import annotations

from typing import NamedTuple

# Sections of the page, as `_assurance_page` numbers them.
_SUMMARY, _EXAMINED, _HAZARDS, _GUARD, _NOT_SHOWN, _OPEN = "1", "2", "3", "4", "5", "6"
_NOTHING = "nothing"


class Heading(NamedTuple):
    """A heading of a document.

    Attributes:
        number: Of the clause or article.
        title: As the document has it.
        sections: Where on the page there is something that helps.
        missing: What its reader needs besides.
    """

    number: str
    title: str
    sections: str
    missing: str


STANDARDS: dict[str, tuple[Heading, ...]] = {
    "IEC 61508-1:2010, clauses 7 and 8": (
        Heading("7.2", "Concept", _EXAMINED, "description of the plant and its surroundings"),
        Heading("7.3", "Overall scope definition", _HAZARDS, "boundary of the equipment under control"),
        Heading(
            "7.4", "Hazard and risk analysis", _HAZARDS, "the analysis itself; the hazards here are given"
        ),
        Heading(
            "7.5", "Overall safety requirements", _HAZARDS, "safety functions and their integrity levels"
        ),
        Heading("7.6", "Overall safety requirements allocation", _GUARD, "allocation to safety systems"),
        Heading("7.7", "Overall operation and maintenance planning", _GUARD, "the plan; see nopg monitor"),
        Heading("7.8", "Overall safety validation planning", _OPEN, "the plan"),
        Heading("7.9", "Overall installation and commissioning planning", _NOTHING, "the plan"),
        Heading("7.10", "E/E/PE system safety requirements specification", _GUARD, "the specification"),
        Heading(
            "7.11", "E/E/PE safety-related systems: realisation", _EXAMINED, "parts 2 and 3 of the standard"
        ),
        Heading("7.12", "Other risk reduction measures", _HAZARDS, "their design and proof"),
        Heading("7.13", "Overall installation and commissioning", _NOTHING, "records of both"),
        Heading(
            "7.14", "Overall safety validation", _SUMMARY, "tests on the plant; the page has predictions"
        ),
        Heading("7.15", "Overall operation, maintenance and repair", _GUARD, "records; see nopg monitor"),
        Heading("7.16", "Overall modification and retrofit", _EXAMINED, "impact analysis of a new training"),
        Heading("7.17", "Decommissioning or disposal", _NOTHING, "the plan"),
        Heading("7.18", "Verification", _EXAMINED, "verification of every phase"),
        Heading("8", "Functional safety assessment", _NOT_SHOWN, "an independent assessment"),
    ),
    "ISO 21448:2022": (
        Heading("5", "Specification and design", f"{_EXAMINED}, {_GUARD}", "intended functionality"),
        Heading("6", "Identification and evaluation of hazards", _HAZARDS, "severity, acceptance criteria"),
        Heading(
            "7",
            "Identification and evaluation of potential functional insufficiencies and potential triggering "
            "conditions",
            f"{_HAZARDS}, {_NOT_SHOWN}",
            "triggering conditions that the log does not contain",
        ),
        Heading("8", "Functional modifications addressing SOTIF-related risks", _GUARD, "other measures"),
        Heading("9", "Definition of the verification and validation strategy", _OPEN, "the strategy"),
        Heading("10", "Evaluation of known scenarios", _HAZARDS, "tests of each scenario on the plant"),
        Heading("11", "Evaluation of unknown scenarios", f"{_HAZARDS}, {_NOT_SHOWN}", "what no log shows"),
        Heading("12", "Evaluation of the achievement of the SOTIF", _SUMMARY, "the argument and its release"),
        Heading("13", "Operation phase activities", _GUARD, "field monitoring; see nopg monitor"),
    ),
    "Regulation (EU) 2024/1689 (AI Act), Articles 9 to 15": (
        Heading("9", "Risk management system", _HAZARDS, "a process over the whole life of the system"),
        Heading("10", "Data and data governance", _EXAMINED, "origin, collection and preparation of the log"),
        Heading("11", "Technical documentation", "all", "the contents of Annex IV"),
        Heading("12", "Record-keeping", _GUARD, "logs of the plant; the guard keeps its handovers only"),
        Heading(
            "13",
            "Transparency and provision of information to deployers",
            f"{_SUMMARY}, {_NOT_SHOWN}",
            "instructions for use",
        ),
        Heading("14", "Human oversight", _GUARD, "who may stop the controller, and how"),
        Heading(
            "15",
            "Accuracy, robustness and cybersecurity",
            f"{_SUMMARY}, {_EXAMINED}, {_GUARD}",
            "tests on the plant, security of the target",
        ),
    ),
}
