"""What a study leaves behind: one trial, one file, enough in it to run the trial again."""

from nopg.records._fingerprint import fingerprint
from nopg.records._provenance import provenance
from nopg.records._record import FORMAT, Record, plain_values, read_records, record_schema, write_json

__all__ = [
    "FORMAT",
    "Record",
    "fingerprint",
    "plain_values",
    "provenance",
    "read_records",
    "record_schema",
    "write_json",
]
