"""Records with a checksum: every single damaged byte is noticed."""

from __future__ import annotations

import json

from saccade.storage import seal, unseal

RECORD = {"step": 20, "loss": 1.5, "validation": {"bleu": 31.25}, "text": "naïve"}


def test_a_record_comes_back_and_no_changed_byte_does() -> None:
    line = seal(RECORD)
    assert unseal(line, ()) == RECORD
    for place in range(len(line)):
        for other in '0x"{ ':
            changed = line[:place] + other + line[place + 1 :]
            found = unseal(changed, ("step", "loss", "validation", "text"))
            assert found is None or changed == line or json.loads(changed) == json.loads(line), changed


def test_a_record_of_an_earlier_version_has_known_fields_only() -> None:
    assert unseal('{"step": 3}', ("step", "loss")) == {"step": 3}
    assert unseal('{"step": 3, "sha257": "00"}', ("step", "loss")) is None
    for text in ("", "3", "[" * 100_000, '{"step": 3'):
        assert unseal(text, ("step",)) is None
